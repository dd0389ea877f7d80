//! Notifies systemd of the host's state: ready, alive, stopping. Does nothing without a supervisor.

use std::time::Duration;

use host_dispatch::{Dispatch, SubmitError};
use host_engine::job::Tick;
use sd_notify::NotifyState;
use tokio_util::sync::CancellationToken;

/// How often to notify the supervisor that the host is alive: this many times per watchdog interval.
const PER_TIMEOUT: u32 = 3;

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
        let turned = dispatch.submit(Tick { limit: 0 }).await;
        let is_away = matches!(
            turned,
            Err(SubmitError::StoreAway | SubmitError::OutcomeUnknown)
        );
        if turned.is_ok() || is_away {
            notify(NotifyState::Watchdog);
        }
    }
}

fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(false, &[state]) {
        tracing::warn!(%error, "cannot notify the supervisor of this process");
    }
}
