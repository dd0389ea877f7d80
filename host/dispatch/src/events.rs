//! Publishes events to all listeners. A slow listener loses the oldest events and learns how many.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use host_core::id::JobId;
use host_core::outcome::Progress;
use host_core::query::Change;
use host_core::time::Time;
use tokio::sync::broadcast;

/// How many batches a listener may be behind before it loses some.
const BATCHES_BEHIND_MAX: usize = 1_024;

#[derive(Clone, Debug, PartialEq)]
pub enum EventKind {
    /// A job entered, changed or left its state. Sent after the commit.
    Changed(Change),
    /// A running job reported progress.
    Progressed {
        job: JobId,
        attempt: u32,
        progress: Progress,
    },
}

/// An event with its number and time.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The number of a change, which the store keeps. Progress has none and is kept nowhere.
    pub number: Option<u64>,
    pub at: Time,
    pub happened: EventKind,
}

/// Publishes events. Cloning shares the channel.
#[derive(Clone)]
pub struct Events {
    sender: broadcast::Sender<Arc<Vec<Event>>>,
    /// The number after the last change that was published; 0 before the first.
    next: Arc<AtomicU64>,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            sender: broadcast::Sender::new(BATCHES_BEHIND_MAX),
            next: Arc::default(),
        }
    }
}

impl Events {
    /// Returns whether there are listeners.
    pub(crate) fn has_listeners(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    /// Returns the number of the next change to publish.
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Sets it: changes before are not published.
    pub(crate) fn begin_at(&self, next: u64) {
        self.next.store(next, Ordering::Relaxed);
    }

    /// Subscribes to all later events. Each message is one batch of events.
    pub fn listen(&self) -> broadcast::Receiver<Arc<Vec<Event>>> {
        self.sender.subscribe()
    }

    /// Publishes changes in the order of their numbers; `first` is the number of the first.
    pub fn changed(&self, at: Time, first: u64, changes: &[Change]) {
        self.begin_at(first + changes.len() as u64);
        let numbered = (first..).zip(changes);
        self.send(numbered.map(|(number, change)| Event {
            number: Some(number),
            at,
            happened: EventKind::Changed(change.clone()),
        }));
    }

    /// Publishes the progress of a job.
    pub fn progressed(&self, at: Time, job: JobId, attempt: u32, progress: Progress) {
        let happened = EventKind::Progressed {
            job,
            attempt,
            progress,
        };
        let number = None;
        self.send([Event {
            number,
            at,
            happened,
        }]);
    }

    fn send(&self, batch: impl IntoIterator<Item = Event>) {
        if self.sender.receiver_count() == 0 {
            return;
        }
        let batch: Vec<Event> = batch.into_iter().collect();
        if !batch.is_empty() {
            // This fails if there are no listeners, which is fine.
            let _ = self.sender.send(Arc::new(batch));
        }
    }
}
