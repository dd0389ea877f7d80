//! Carries guests' log lines from the dispatch loop to the log writer. The loop never waits: lines
//! that find no room are dropped and counted, and the log notes how many.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use host_core::cell::LogLine;
use host_core::id::JobId;
use host_core::time::Time;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};

/// How many messages may wait to be written.
pub const LOGGED_WAITING_MAX: usize = 4_096;

/// The most memory for waiting lines, in bytes. Guests can write faster than disks.
pub(crate) const LOGGED_BYTES_MAX: usize = 32 << 20;

/// The most attempts for which dropped lines are counted separately.
const GAPS_MAX: usize = 4_096;

/// The memory that a line or a field takes beyond its text, in bytes.
const ENTRY_BYTES: usize = 128;

/// A message to the log writer.
#[derive(Clone, Debug, PartialEq)]
pub enum Logged {
    /// Lines to append to the log of the attempt.
    Lines {
        job: JobId,
        attempt: u32,
        /// When the attempt began. The lines' times are relative to it.
        started_at: Time,
        lines: Vec<LogLine>,
    },
    /// The job was purged: delete its lines.
    Purged(JobId),
}

impl Logged {
    /// Estimates the memory it takes.
    fn bytes(&self) -> usize {
        match self {
            Self::Purged(_) => 0,
            Self::Lines { lines, .. } => lines.iter().map(line_bytes).sum(),
        }
    }
}

fn line_bytes(line: &LogLine) -> usize {
    let fields: usize = line
        .fields
        .iter()
        .map(|(name, value)| ENTRY_BYTES + name.len() + value.0.len())
        .sum();
    ENTRY_BYTES + line.message.len() + fields
}

/// A message that waits to be written, and the memory reserved for it.
#[derive(Debug)]
pub struct PendingLog {
    pub logged: Logged,
    /// The reserved memory, freed on drop. Keep it until the lines are written.
    pub room: OwnedSemaphorePermit,
}

/// Lines of one attempt that were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    pub job: JobId,
    pub attempt: u32,
    /// When the guest wrote the first of them.
    pub at: Time,
    pub lines: u64,
}

/// Dropped lines that the log does not mention yet. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub struct Gaps(Arc<Mutex<BTreeMap<(JobId, u32), Gap>>>);

impl Gaps {
    fn note(&self, job: JobId, attempt: u32, at: Time, lines: u64) {
        let mut gaps = self.0.lock();
        if let Some(gap) = gaps.get_mut(&(job, attempt)) {
            gap.lines += lines;
        } else if gaps.len() < GAPS_MAX {
            let gap = Gap {
                job,
                attempt,
                at,
                lines,
            };
            gaps.insert((job, attempt), gap);
        }
    }

    /// Takes all gaps. The caller must write them to the log.
    pub fn take(&self) -> Vec<Gap> {
        std::mem::take(&mut *self.0.lock()).into_values().collect()
    }
}

/// How many messages were sent, and how many of them are written. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Progress {
    sent: Arc<AtomicU64>,
    written: watch::Sender<u64>,
}

impl Progress {
    /// Adds messages that are written, or lost.
    pub fn add_written(&self, messages: u64) {
        self.written.send_modify(|written| *written += messages);
    }

    /// Waits until all is written that has been sent before. Cancel safe.
    pub async fn all_written(&self) {
        let sent = self.sent.load(Ordering::Acquire);
        let mut written = self.written.subscribe();
        // Fails only without a sender, which `self` has.
        let _ = written.wait_for(|written| *written >= sent).await;
    }
}

/// The loop's end of the channel to the log writer. Cloning shares it.
#[derive(Clone)]
pub struct Logs {
    waiting: mpsc::Sender<PendingLog>,
    room: Arc<Semaphore>,
    progress: Progress,
    gaps: Gaps,
    dropped: Counter,
}

impl Logs {
    /// Makes both ends of the channel.
    pub fn channel() -> (Self, mpsc::Receiver<PendingLog>) {
        let (waiting, written) = mpsc::channel(LOGGED_WAITING_MAX);
        let logs = Self {
            waiting,
            room: Arc::new(Semaphore::new(LOGGED_BYTES_MAX)),
            progress: Progress {
                sent: Arc::default(),
                written: watch::Sender::new(0),
            },
            gaps: Gaps::default(),
            dropped: Counter::default(),
        };
        (logs, written)
    }

    /// Sends a message, or drops it if there is no room.
    pub fn send(&self, logged: Logged) {
        let bytes = u32::try_from(logged.bytes()).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).try_acquire_many_owned(bytes);
        let dropped = match room {
            Err(_) => logged,
            Ok(room) => match self.waiting.try_send(PendingLog { logged, room }) {
                Ok(()) => {
                    self.progress.sent.fetch_add(1, Ordering::Release);
                    return;
                }
                Err(refused) => refused.into_inner().logged,
            },
        };
        self.dropped.inc();
        if let Logged::Lines {
            job,
            attempt,
            started_at,
            lines,
        } = dropped
        {
            let at_ms = lines.first().map_or(0, |line| line.at_ms);
            let at = started_at.plus_ms(at_ms);
            self.gaps.note(job, attempt, at, lines.len() as u64);
        }
    }

    /// Returns how far the log writer is.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Returns the counts of dropped lines.
    pub fn gaps(&self) -> Gaps {
        self.gaps.clone()
    }

    /// Registers the number of dropped lines in `/metrics`.
    pub fn register(&self, registry: &mut Registry) {
        let help = "Messages of guests' logs that were not kept because writing was behind";
        registry.register("log_messages_dropped", help, self.dropped.clone());
    }
}

#[cfg(test)]
mod tests {
    use host_core::cell::{Level, LogSource};

    use super::*;

    fn job() -> JobId {
        "01990f3c-0000-7000-8000-000000000000".parse().unwrap()
    }

    fn lines(bytes: usize) -> Logged {
        Logged::Lines {
            job: job(),
            attempt: 1,
            started_at: Time(0),
            lines: vec![LogLine {
                at_ms: 0,
                level: Level::Info,
                source: LogSource::Log,
                message: "x".repeat(bytes),
                fields: Vec::new(),
            }],
        }
    }

    #[test]
    fn what_waits_is_bounded_in_bytes_until_it_is_written() {
        let (logs, mut written) = Logs::channel();
        let third = LOGGED_BYTES_MAX / 3;
        for _ in 0..3 {
            logs.send(lines(third));
        }
        assert_eq!(logs.dropped.get(), 1, "the third has no room");
        let first = written.try_recv().unwrap();
        logs.send(lines(third));
        assert_eq!(logs.dropped.get(), 2, "the first is not written yet");
        drop(first);
        logs.send(lines(third));
        assert_eq!(logs.dropped.get(), 2);
        let gap = Gap {
            job: job(),
            attempt: 1,
            at: Time(0),
            lines: 2,
        };
        assert_eq!(logs.gaps().take(), [gap]);
        assert_eq!(logs.gaps().take(), []);
        logs.send(Logged::Purged(job()));
        assert_eq!(written.len(), 3, "what takes no room waits all the same");
    }
}
