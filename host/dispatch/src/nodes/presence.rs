//! What this host says of itself to whoever looks at the nodes, and what it is asked to do.

use std::sync::{Mutex, MutexGuard, PoisonError};

use host_core::node::{Card, Running};
use tokio::sync::watch;

/// This host as a node: its card, and whether it is asked to start no more jobs.
#[derive(Debug, Default)]
pub struct Presence {
    card: Mutex<Card>,
    drain: watch::Sender<bool>,
}

impl Presence {
    /// Returns what this host says of itself now.
    pub fn card(&self) -> Card {
        self.locked().clone()
    }

    /// Changes what it says.
    pub fn change(&self, change: impl FnOnce(&mut Card)) {
        change(&mut self.locked());
    }

    /// Says what runs here, and whether no more jobs are started.
    pub(crate) fn runs(&self, running: Running, drains: bool) {
        let mut card = self.locked();
        card.running = running;
        card.drains = drains;
    }

    /// Asks this host to start no more jobs, or to start some again.
    pub fn ask_to_drain(&self, drain: bool) {
        self.drain
            .send_if_modified(|asked| std::mem::replace(asked, drain) != drain);
    }

    /// Returns whether it is asked to start no more jobs.
    pub fn is_asked_to_drain(&self) -> bool {
        *self.drain.borrow()
    }

    /// Returns what hears when that changes.
    pub(crate) fn drain(&self) -> watch::Receiver<bool> {
        self.drain.subscribe()
    }

    fn locked(&self) -> MutexGuard<'_, Card> {
        self.card.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
