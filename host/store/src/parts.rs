//! The parts of a store, in terms that all engines share, so that it can be moved from one to another.

use crate::error::StoreError;

/// The parts of a store, in the order of copying.
pub(crate) const PARTS: [&str; 25] = [
    "queues",
    "jobs that have not ended",
    "jobs that have ended",
    "params",
    "attempts",
    "failures",
    "unique keys",
    "dependencies",
    "cascades",
    "components",
    "revisions",
    "component files",
    "state",
    "sizes of state",
    "changes",
    "tokens",
    "numbers of principals",
    "entries of the audit",
    "schedules",
    "firings of schedules",
    "limits",
    "keys of limits",
    "running jobs of limits",
    "batches",
    "lines of logs",
];

/// The part that is copied only into a database: SQLite keeps it in a separate file, and no job needs it.
pub(crate) const LOGS: usize = PARTS.len() - 1;

pub(crate) use crate::table::{Row, Value};

/// Receives the rows of a part, one after the other.
pub(crate) type See<'a> = &'a mut dyn FnMut(Row) -> Result<(), StoreError>;
