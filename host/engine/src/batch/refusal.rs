//! Why commands about batches are refused.

use host_core::id::BatchId;

use crate::refusals;

refusals! {
    /// Why a batch cannot be made or changed.
    pub enum BatchRefusal {
        #[error("no batch has the id {0}")]
        Unknown(BatchId) = BATCH_NOT_FOUND 404 "batch_not_found", "No such batch",
            "No batch has this id. One that has ended is forgotten after its retention, usually 7 days.",
            "`host batch ls` lists the batches.";
        /// It was closed, has ended or is cancelled.
        #[error("the batch {0} takes no more jobs")]
        Closed(BatchId) = BATCH_CLOSED 409 "batch_closed", "Batch is closed",
            "The batch is closed, cancelled or has ended: it takes no more jobs, except from handlers of its own jobs.",
            "Make another batch with `host batch new`; `--open` lets you add to it.";
        #[error("the batch {batch} may have at most {limit} jobs")]
        Full { batch: BatchId, limit: u64 } = BATCH_FULL 422 "batch_full", "Batch is full",
            "A batch may have at most 1000000 jobs.",
            "Make another batch with `host batch new`.";
        #[error("there are {limit} batches already that have not ended; close or cancel some")]
        TooMany { limit: u64 } = TOO_MANY_BATCHES 409 "too_many_batches", "Too many batches",
            "There are 10000 batches that have not ended.",
            "Close or cancel some; `host batch ls` lists them.";
    }
}
