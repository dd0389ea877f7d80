//! What guests wrote, on its way from the dispatch loop to wherever logs are kept. The loop never
//! waits for it: what finds no room is dropped and counted.

use host_core::cell::LogLine;
use host_core::id::JobId;
use host_core::time::Time;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;

/// How many messages may wait to be written.
pub const LOGGED_WAITING_MAX: usize = 4_096;

/// One thing to write.
#[derive(Clone, Debug, PartialEq)]
pub enum Logged {
    /// These lines, after the earlier ones of the attempt.
    Lines {
        /// Whose.
        job: JobId,
        /// During which attempt.
        attempt: u32,
        /// When the attempt began; the lines count from here.
        started_at: Time,
        /// The lines.
        lines: Vec<LogLine>,
    },
    /// The job is purged: forget its lines.
    Purged(JobId),
}

/// Where the loop puts what guests wrote. Cloning shares it.
#[derive(Clone)]
pub struct Logs {
    waiting: mpsc::Sender<Logged>,
    dropped: Counter,
}

impl Logs {
    /// Makes both ends: the loop's, and the one that is written from.
    pub fn channel() -> (Self, mpsc::Receiver<Logged>) {
        let (waiting, written) = mpsc::channel(LOGGED_WAITING_MAX);
        let dropped = Counter::default();
        (Self { waiting, dropped }, written)
    }

    /// Passes something on, or drops it.
    pub fn tell(&self, logged: Logged) {
        if self.waiting.try_send(logged).is_err() {
            self.dropped.inc();
        }
    }

    /// Lets `/metrics` show what was dropped.
    pub fn register(&self, registry: &mut Registry) {
        let help = "Messages of guests' logs that were not kept because writing was behind";
        registry.register("log_messages_dropped", help, self.dropped.clone());
    }
}
