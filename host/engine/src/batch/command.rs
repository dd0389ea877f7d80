//! The commands about batches.

use host_core::id::BatchId;
use host_core::job::NewJob;

use super::BatchPlan;
use crate::commands;
use crate::job::Enqueued;

/// Make a batch with its first jobs, all or nothing. The reply has one entry for each job.
#[derive(Clone, Debug, PartialEq)]
pub struct NewBatch {
    /// A new id.
    pub id: BatchId,
    pub plan: BatchPlan,
    /// Whether jobs may be added later.
    pub is_open: bool,
    /// Its first jobs, which name it.
    pub jobs: Vec<NewJob>,
}

/// Let no more jobs be added to a batch from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseBatch {
    pub batch: BatchId,
}

/// Close a batch and cancel its jobs, a slice with each tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelBatch {
    pub batch: BatchId,
    /// The requester's reason.
    pub reason: Option<String>,
}

commands! {
    Batch {
        NewBatch(Box<NewBatch>) "new_batch" -> Vec<Enqueued>, new_batch, |new| new.jobs.len(), "one batch, and the jobs and dependencies of a request, both limited";
        CloseBatch(CloseBatch) "close_batch" -> (), close_batch, |_| 0, "one batch";
        CancelBatch(CancelBatch) "cancel_batch" -> (), cancel_batch, |_| 0, "one batch: ticks cancel its jobs";
    }
}
