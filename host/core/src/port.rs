//! The doors between wires and the host. Each is a pair of plain traits: one side calls without
//! waiting, the other answers by tag. No async, no I/O, no clock: wires bring sockets, the host
//! brings the store and the cells.
//!
//! - [`execute`]: a foreign orchestrator gives us work; the host executes it.
//! - [`assign`]: the host gives leased attempts to a wire that pushes them to foreign workers.
//! - [`lease`]: foreign workers pull work; the host grants leases and hears about them.
//! - [`conformance`]: auditors of the three for tests.

#![warn(missing_docs)]

pub mod assign;
pub mod conformance;
pub mod execute;
pub mod lease;

use crate::time::Time;

pub use assign::{Assign, AssignEvents, Assignment, End};
pub use execute::{Answer, Answers, Execute, ForeignJob, Reply, Stop};

/// Names one execution between a wire and the host; unique for the life of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// Tells the time. Host time never jumps; the wall clock may.
pub trait Clock: Send + Sync {
    /// Returns host time.
    fn now(&self) -> Time;

    /// Returns the wall clock, against which foreign deadlines are read.
    fn wall(&self) -> Time;
}

/// Counts what a wire refuses.
pub trait Counters: Send + Sync {
    /// Counts one refusal: `wire` and `code` are metric labels from closed lists.
    fn refused(&self, wire: &'static str, code: &'static str);
}
