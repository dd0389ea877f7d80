//! Notifies systemd of the host's state: ready, alive, stopping. Does nothing without a supervisor.

use std::time::Duration;

use host_core::command::Command;
use host_dispatch::Dispatch;
use host_store::StoreError;
use sd_notify::NotifyState;
use tokio_util::sync::CancellationToken;

/// How often to notify the supervisor that the host is alive: this many times per watchdog interval.
const PER_TIMEOUT: u32 = 3;

/// The pause between two checks whether the store is away, while the dispatch loop does not answer.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// Notifies that the host accepts requests.
pub(super) fn ready() {
    notify(NotifyState::Ready);
}

/// Notifies that the host starts no more jobs.
pub(super) fn stopping() {
    notify(NotifyState::Stopping);
}

/// Notifies that the host is alive, as long as its dispatch loop answers or waits for the database.
pub(super) async fn keep_alive(dispatch: Dispatch, stopping: CancellationToken) {
    let mut timeout_us = 0;
    if !sd_notify::watchdog_enabled(false, &mut timeout_us) {
        return;
    }
    let mut beats = tokio::time::interval(Duration::from_micros(timeout_us) / PER_TIMEOUT);
    loop {
        tokio::select! {
            _ = beats.tick() => {}
            () = stopping.cancelled() => return,
        }
        // It changes nothing, and only a running loop answers it.
        let turns = dispatch.submit(Command::Tick { limit: 0 });
        let is_alive = tokio::select! {
            turned = turns => turned.is_ok(),
            () = store_is_away(&dispatch) => true,
        };
        if is_alive {
            notify(NotifyState::Watchdog);
        }
    }
}

/// Waits until the store is away.
async fn store_is_away(dispatch: &Dispatch) {
    loop {
        tokio::time::sleep(LOOK_PAUSE).await;
        let read = dispatch.read(|reader| reader.components()).await;
        if matches!(read, Err(StoreError::Away { .. })) {
            return;
        }
    }
}

fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(false, &[state]) {
        tracing::warn!(%error, "cannot notify the supervisor of this process");
    }
}
