//! What happens, for whoever listens: a slow listener loses the oldest and is told how many.

use std::sync::Arc;

use host_core::command::Change;
use host_core::id::JobId;
use host_core::outcome::Progress;
use host_core::time::Time;
use tokio::sync::broadcast;

/// How many batches a listener may be behind before it loses some.
const BATCHES_BEHIND_MAX: usize = 1_024;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Happened {
    /// A job entered, changed or left its state; told after the commit.
    Changed(Change),
    /// A running job told how far it is.
    Progressed {
        /// Which job.
        job: JobId,
        /// Which attempt.
        attempt: u32,
        /// How far.
        progress: Progress,
    },
}

/// One thing that happened, with its place in the order and its instant.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// 1 for the first since the host started.
    pub number: u64,
    /// When.
    pub at: Time,
    /// What.
    pub happened: Happened,
}

/// Spreads events.
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
    /// Listens from now on; events come in the batches they happened in.
    pub fn listen(&self) -> broadcast::Receiver<Arc<Vec<Event>>> {
        self.sender.subscribe()
    }

    /// Tells a batch to whoever listens. Only the dispatch loop calls it.
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
            // Nobody may be left to hear it.
            let _heard = self.sender.send(Arc::new(batch));
        }
    }
}
