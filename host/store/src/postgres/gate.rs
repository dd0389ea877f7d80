//! Whether the batch that is being committed may still be given up: until its commit is sent.

use std::sync::atomic::{AtomicBool, Ordering};

use host_engine::StoreError;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::trouble::Trouble;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// No batch is being committed, or its commit was sent.
    #[default]
    Closed,
    Open,
    GivenUp,
}

/// The gate between what a batch does before its commit is sent, and the commit.
#[derive(Debug, Default)]
pub(super) struct Gate {
    state: Mutex<State>,
    given_up: Notify,
    /// Whether the host stops.
    is_stopping: AtomicBool,
}

impl Gate {
    /// Begins a batch.
    pub(super) fn open(&self) {
        *self.state.lock() = State::Open;
    }

    /// Closes it, because the commit is sent now. Returns false if the batch was given up.
    pub(super) fn pass(&self) -> bool {
        let was = std::mem::take(&mut *self.state.lock());
        was != State::GivenUp
    }

    /// Gives the batch up, unless its commit was sent.
    pub(super) fn give_up(&self) {
        let mut state = self.state.lock();
        if *state == State::Open {
            *state = State::GivenUp;
            self.given_up.notify_waiters();
        }
    }

    /// Records that the host stops.
    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// Returns whether the host stops, so that it no longer finds out what became of a commit.
    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Waits for `work`, unless the batch is given up. Cancel safe if `work` is.
    pub(super) async fn during<T>(
        &self,
        work: impl Future<Output = Result<T, Trouble>>,
    ) -> Result<T, Trouble> {
        let notified = self.given_up.notified();
        if *self.state.lock() == State::GivenUp {
            return Err(given_up());
        }
        tokio::select! {
            done = work => done,
            () = notified => Err(given_up()),
        }
    }
}

/// Returns why a batch failed that was given up.
pub(super) fn given_up() -> Trouble {
    Trouble::Fatal(StoreError::Away {
        operation: "commit a batch",
        message: "the database did not answer in time".to_owned(),
    })
}
