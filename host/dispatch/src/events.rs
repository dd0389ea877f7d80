//! Publishes events to all listeners. A slow listener loses the oldest events and learns how many.

use std::sync::Arc;

use host_core::command::Change;
use host_core::id::JobId;
use host_core::outcome::Progress;
use host_core::time::Time;
use tokio::sync::broadcast;

/// How many batches a listener may be behind before it loses some.
const BATCHES_BEHIND_MAX: usize = 1_024;

#[derive(Clone, Debug, PartialEq)]
pub enum Happened {
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
    pub happened: Happened,
}

/// Publishes events. Cloning shares the channel.
#[derive(Clone)]
pub struct Events {
    sender: broadcast::Sender<Arc<Vec<Event>>>,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            sender: broadcast::Sender::new(BATCHES_BEHIND_MAX),
        }
    }
}

impl Events {
    /// Subscribes to all later events. Each message is one batch of events.
    pub fn listen(&self) -> broadcast::Receiver<Arc<Vec<Event>>> {
        self.sender.subscribe()
    }

    /// Publishes the changes of a commit; `first` is the number of the first. Only the dispatch loop
    /// calls it.
    pub fn changed(&self, at: Time, first: u64, changes: &[Change]) {
        let numbered = (first..).zip(changes);
        self.tell(numbered.map(|(number, change)| Event {
            number: Some(number),
            at,
            happened: Happened::Changed(change.clone()),
        }));
    }

    /// Publishes the progress of a job.
    pub fn progressed(&self, at: Time, job: JobId, attempt: u32, progress: Progress) {
        let happened = Happened::Progressed {
            job,
            attempt,
            progress,
        };
        let number = None;
        self.tell([Event {
            number,
            at,
            happened,
        }]);
    }

    fn tell(&self, batch: impl IntoIterator<Item = Event>) {
        if self.sender.receiver_count() == 0 {
            return;
        }
        let batch: Vec<Event> = batch.into_iter().collect();
        if !batch.is_empty() {
            // This fails if there are no listeners, which is fine.
            let _heard = self.sender.send(Arc::new(batch));
        }
    }
}
