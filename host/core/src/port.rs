//! The ports between wires, other sources of jobs, and the host. Each is a pair of plain traits: one side calls without
//! waiting, the other answers with the same tag. No async, no I/O, no clock: wires bring sockets,
//! the host brings the store and the cells.
//!
//! - [`accept`]: jobs that come from elsewhere become ours.
//! - [`execute`]: a foreign orchestrator sends work, and the host executes it.
//! - [`lease`]: foreign workers execute our jobs, and the host grants and tracks their leases.

#![warn(missing_docs)]

pub mod accept;
pub mod execute;
pub mod lease;
pub mod requests;
pub mod spans;

use crate::cell::LogLine;
use crate::id::JobId;
use crate::time::Time;

pub use execute::{Answer, Answers, Execute, ForeignJob, Reply, Stop};
pub use lease::{Assignment, End};

/// Names one execution between a wire and the host; unique for the life of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// Tells the time. Host time never jumps; the wall clock may.
pub trait Clock: Send + Sync {
    /// Returns host time.
    fn now(&self) -> Time;

    /// Returns the wall clock, which foreign deadlines refer to.
    fn wall(&self) -> Time;
}

/// Counts the messages that wires refuse, and what their workers have to do.
pub trait Counters: Send + Sync {
    /// Counts one refusal. `wire` and `code` are metric labels from closed lists.
    fn refused(&self, wire: &'static str, code: &'static str);

    /// Sets how much a worker of a wire has to do. `worker` is a name from the configuration, `state` a
    /// metric label from a closed list.
    fn set_depth(&self, wire: &'static str, worker: &str, state: &'static str, count: u64) {
        let _ = (wire, worker, state, count);
    }
}

/// Keeps what foreign workers write about our jobs. Never waits.
pub trait JobLogs: Send + Sync {
    /// Keeps lines of an attempt that began at `started_at`, from which their times count. Returns
    /// whether logs are still kept.
    fn keep(&self, job: JobId, attempt: u32, started_at: Time, lines: Vec<LogLine>) -> bool;
}
