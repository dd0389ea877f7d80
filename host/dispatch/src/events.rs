//! Publishes events to all listeners. A slow listener loses the oldest events and learns how many.

mod sequence;

use std::sync::Arc;

use host_core::command::Change;
use host_core::id::JobId;
use host_core::outcome::Progress;
use host_core::time::Time;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, broadcast};

use self::sequence::{Run, Sequence};

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
    /// Puts changes into order, if other nodes make some too.
    order: Option<Arc<Order>>,
}

/// The changes of all nodes in their order.
#[derive(Default)]
struct Order {
    sequence: Mutex<Sequence>,
    /// Changes of other nodes are missing.
    missing: Notify,
}

impl Order {
    fn lock(&self) -> MutexGuard<'_, Sequence> {
        self.sequence.lock()
    }
}

impl Default for Events {
    fn default() -> Self {
        Self {
            sender: broadcast::Sender::new(BATCHES_BEHIND_MAX),
            order: None,
        }
    }
}

impl Events {
    /// Makes events of a store that other nodes write to as well.
    pub fn ordered() -> Self {
        Self {
            order: Some(Arc::default()),
            ..Self::default()
        }
    }

    /// Returns whether anybody listens.
    pub(crate) fn has_listeners(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    /// Returns the number of the next change to publish, if changes are put into order.
    pub(crate) fn next(&self) -> Option<u64> {
        self.order.as_ref()?.lock().next()
    }

    /// Waits until changes of other nodes are missing before some of this one.
    pub(crate) async fn missing(&self) {
        match &self.order {
            Some(order) => order.missing.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Subscribes to all later events. Each message is one batch of events.
    pub fn listen(&self) -> broadcast::Receiver<Arc<Vec<Event>>> {
        self.sender.subscribe()
    }

    /// Publishes the changes of a commit; `first` is the number of the first. If other nodes make changes
    /// too, each waits for those before it.
    pub fn changed(&self, at: Time, first: u64, changes: &[Change]) {
        let Some(order) = &self.order else {
            return self.publish(at, first, changes);
        };
        // Held until they are published, so that nobody publishes later ones before.
        let mut sequence = order.lock();
        for Run { first, at, changes } in sequence.offer(first, at, changes) {
            self.publish(at, first, &changes);
        }
        if sequence.is_waiting() {
            order.missing.notify_one();
        }
    }

    fn publish(&self, at: Time, first: u64, changes: &[Change]) {
        let numbered = (first..).zip(changes);
        self.send(numbered.map(|(number, change)| Event {
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
            let _listeners = self.sender.send(Arc::new(batch));
        }
    }
}
