//! Tells systemd how the host is: ready, alive, stopping. Does nothing if no supervisor asks.

use std::time::Duration;

use host_core::command::Command;
use host_dispatch::Dispatch;
use sd_notify::NotifyState;
use tokio_util::sync::CancellationToken;

/// How often the supervisor is told that the host is alive: this many times in the time it allows.
const PER_TIMEOUT: u32 = 3;

/// Says that the host accepts requests.
pub(super) fn ready() {
    tell(NotifyState::Ready);
}

/// Says that the host starts no more jobs.
pub(super) fn stopping() {
    tell(NotifyState::Stopping);
}

/// Says that the host is alive, as long as its dispatch loop answers.
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
        // It changes nothing, and only a loop that turns answers it.
        if dispatch.submit(Command::Tick { limit: 0 }).await.is_ok() {
            tell(NotifyState::Watchdog);
        }
    }
}

fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(false, &[state]) {
        tracing::warn!(%error, "the supervisor of this process cannot be told how it is");
    }
}
