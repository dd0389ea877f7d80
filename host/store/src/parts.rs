//! The parts of a store, in terms that all engines share, so that it can be moved from one to another.

use host_engine::StoreError;

/// Rows of the same kind.
pub(crate) struct StorePart {
    pub(crate) name: &'static str,
    /// What one of its rows is.
    pub(crate) row: &'static str,
    /// The columns that identify a row.
    pub(crate) keys: &'static [usize],
}

const fn part(name: &'static str, row: &'static str, keys: &'static [usize]) -> StorePart {
    StorePart { name, row, keys }
}

/// The parts of a store, in the order of copying.
pub(crate) const PARTS: [StorePart; 25] = [
    part("queues", "queue", &[0]),
    part("jobs that have not ended", "job", &[0]),
    part("jobs that have ended", "job", &[0]),
    part("params", "params of job", &[0]),
    part("attempts", "attempt of job", &[0, 1]),
    part("failures", "failure of job", &[0]),
    part("unique keys", "unique key of queue", &[0, 1]),
    part("dependencies", "dependency on job", &[0, 2]),
    part("cascades", "cascade", &[0]),
    part("components", "component", &[0]),
    part("revisions", "revision of component", &[0, 1]),
    part("component files", "component file", &[0]),
    part("state", "value of state", &[0, 1]),
    part("sizes of state", "size of state", &[0]),
    part("changes", "changes", &[0]),
    part("tokens", "token", &[0]),
    part("numbers of principals", "number of principal", &[0]),
    part("entries of the audit", "entry of the audit", &[0]),
    part("schedules", "schedule", &[0]),
    part("firings of schedules", "firing of schedule", &[0, 1]),
    part("limits", "limit", &[0]),
    part("keys of limits", "key of limit", &[0, 1]),
    part(
        "running jobs of limits",
        "running job of limit",
        &[0, 1, 2, 3],
    ),
    part("batches", "batch", &[0]),
    part("lines of logs", "line of logs", &[0]),
];

/// The part that is copied only into a database: SQLite keeps it in a separate file, and no job needs it.
pub(crate) const LOGS: usize = PARTS.len() - 1;

pub(crate) use host_engine::table::{Row, Value};

/// Receives the rows of a part, one after the other.
pub(crate) type See<'a> = &'a mut dyn FnMut(Row) -> Result<(), StoreError>;
