//! Batches of jobs.

use host_core::id::BatchId;

use super::JobBatch;
use crate::StoreError;
use crate::table::{Fields, Marked, Range, Record, Row, Table, Value, json, row, table};

/// `body` is what a batch was made with as JSON, `progress` what has become of it. Those that have not ended are marked.
pub static BATCHES: Table = table!(
    "batches", "batch", "batches", 1,
    [id: Id, body: Json, progress: Json, ended: Flag, wake_at: Int]
)
.timed(4)
.marked(Marked::Flag(3, false));

impl Record for JobBatch {
    const TABLE: &'static Table = &BATCHES;
    type Key<'k> = BatchId;

    fn key(id: BatchId) -> Row {
        row![id.0]
    }

    fn to_row(&self) -> Result<Row, StoreError> {
        let mut row = row![self.id.0, json(&BATCHES, &self.plan)?];
        row.extend(progress(self)?.into_iter().map(|(_, value)| value));
        Ok(row)
    }

    fn from_row(row: Row) -> Result<Self, StoreError> {
        let mut fields = Fields::new(&BATCHES, row);
        Ok(Self {
            id: BatchId(fields.id()?),
            plan: fields.json()?,
            progress: fields.json()?,
        })
    }
}

/// Returns the columns that change with the progress of a batch. What it was made with may be large, and is written once.
pub(crate) fn progress(batch: &JobBatch) -> Result<Vec<(usize, Value)>, StoreError> {
    Ok(vec![
        (2, json(&BATCHES, &batch.progress)?),
        (3, batch.progress.ended_at.is_some().into()),
        (4, batch.wake_at().into()),
    ])
}

/// Returns the batches that are older than one, the newest first, at most `limit`.
pub fn older(before: Option<BatchId>, limit: u32) -> Range {
    let newest = Range::all().backwards().first(limit);
    match before {
        Some(before) => newest.after(before.0),
        None => newest,
    }
}
