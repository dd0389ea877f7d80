//! The parts of a store, in terms that all engines share, so that it can be moved from one to another.

use host_engine::StoreError;
use host_engine::artifact::tables::{
    ARTIFACT_CONTENTS, ARTIFACTS, INPUT_FILES, UPLOAD_USAGE, UPLOADS,
};
use host_engine::audit::tables::AUDIT;
use host_engine::batch::tables::BATCHES;
use host_engine::component::tables::{BLOBS, COMPONENTS, REVISIONS};
use host_engine::limit::tables::{LIMIT_KEYS, LIMITS};
use host_engine::schedule::tables::{FIRINGS, SCHEDULES};
use host_engine::state::tables::{SPACES, STATE};
use host_engine::step::tables::STEPS;
use host_engine::table::Table;
use host_engine::token::tables::TOKENS;

use self::Hot::{
    Attempts, Cascades, Changes, Dependencies, EndedJobs, Failures, LiveJobs, Logs, Owned, Params,
    Queues, RunningOfLimits, UniqueKeys,
};

/// Rows of the same kind.
pub(crate) struct StorePart {
    pub(crate) name: &'static str,
    /// What one of its rows is.
    pub(crate) row: &'static str,
    /// The columns that identify a row.
    pub(crate) keys: &'static [usize],
    pub(crate) rows: PartRows,
}

/// Where the rows of a part are.
#[derive(Clone, Copy)]
pub(crate) enum PartRows {
    /// Each engine has statements of its own for them.
    Hot(Hot),
    Table(&'static Table),
}

/// A part that is no table of cold things, in the order of the statements of each engine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hot {
    Queues,
    LiveJobs,
    EndedJobs,
    Params,
    Attempts,
    Failures,
    UniqueKeys,
    Dependencies,
    Cascades,
    Changes,
    Owned,
    RunningOfLimits,
    Logs,
}

/// How many of these there are.
pub(crate) const HOT: usize = Hot::Logs as usize + 1;

const fn hot(hot: Hot, name: &'static str, row: &'static str, keys: &'static [usize]) -> StorePart {
    let rows = PartRows::Hot(hot);
    StorePart {
        name,
        row,
        keys,
        rows,
    }
}

const fn rows_of(table: &'static Table) -> StorePart {
    StorePart {
        name: table.many,
        row: table.one,
        keys: [0, 1].split_at(table.key).0,
        rows: PartRows::Table(table),
    }
}

/// The parts of a store, in the order of copying.
pub(crate) const PARTS: [StorePart; 31] = [
    hot(Queues, "queues", "queue", &[0]),
    hot(LiveJobs, "jobs that have not ended", "job", &[0]),
    hot(EndedJobs, "jobs that have ended", "job", &[0]),
    hot(Params, "params", "params of job", &[0]),
    hot(Attempts, "attempts", "attempt of job", &[0, 1]),
    hot(Failures, "failures", "failure of job", &[0]),
    hot(UniqueKeys, "unique keys", "unique key of queue", &[0, 1]),
    hot(Dependencies, "dependencies", "dependency on job", &[0, 2]),
    hot(Cascades, "cascades", "cascade", &[0]),
    rows_of(&COMPONENTS),
    rows_of(&REVISIONS),
    rows_of(&BLOBS),
    rows_of(&STATE),
    rows_of(&SPACES),
    hot(Changes, "changes", "changes", &[0]),
    rows_of(&TOKENS),
    hot(Owned, "numbers of principals", "number of principal", &[0]),
    rows_of(&AUDIT),
    rows_of(&SCHEDULES),
    rows_of(&FIRINGS),
    rows_of(&LIMITS),
    rows_of(&LIMIT_KEYS),
    hot(
        RunningOfLimits,
        "running jobs of limits",
        "running job of limit",
        &[0, 1, 2, 3],
    ),
    rows_of(&BATCHES),
    rows_of(&ARTIFACTS),
    rows_of(&ARTIFACT_CONTENTS),
    rows_of(&INPUT_FILES),
    rows_of(&UPLOADS),
    rows_of(&UPLOAD_USAGE),
    rows_of(&STEPS),
    hot(Logs, "lines of logs", "line of logs", &[0]),
];

/// The part that is copied only into a database: SQLite keeps it in a separate file, and no job needs it.
pub(crate) const LOGS: usize = PARTS.len() - 1;

/// Returns the part that has the rows of a table.
pub(crate) fn part_of(table: &Table) -> usize {
    let is_it = |part: &StorePart| part.name == table.many;
    PARTS.iter().position(is_it).unwrap_or(PARTS.len())
}

pub(crate) use host_engine::table::{Row, Value};

/// Receives the rows of a part, one after the other.
pub(crate) type See<'a> = &'a mut dyn FnMut(Row) -> Result<(), StoreError>;
