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
    /// 1 for the first event since the host started.
    pub number: u64,
    pub at: Time,
    pub happened: Happened,
}

/// Publishes events. Cloning shares the channel.
#[derive(Clone)]
pub struct Events {
    sender: broadcast::Sender<Arc<Vec<Event>>>,
    last: Arc<std::sync::atomic::AtomicU64>,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            sender: broadcast::Sender::new(BATCHES_BEHIND_MAX),
            last: Arc::default(),
        }
    }
}

impl Events {
    /// Subscribes to all later events. Each message is one batch of events.
    pub fn listen(&self) -> broadcast::Receiver<Arc<Vec<Event>>> {
        self.sender.subscribe()
    }

    /// Publishes a batch. Only the dispatch loop calls it.
    pub fn tell(&self, at: Time, batch: impl IntoIterator<Item = Happened>) {
        if self.sender.receiver_count() == 0 {
            return;
        }
        let number = || 1 + self.last.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let batch: Vec<Event> = batch
            .into_iter()
            .map(|happened| Event {
                number: number(),
                at,
                happened,
            })
            .collect();
        if !batch.is_empty() {
            // This fails if there are no listeners, which is fine.
            let _heard = self.sender.send(Arc::new(batch));
        }
    }
}
