//! Why a step is not committed.

use crate::refusals;

refusals! {
    /// Why a step is not committed.
    pub enum StepRefusal {
        /// Another step is at its place in the journal, or none before it.
        #[error("the step {name:?} does not fit the journal of the job as its step {}", number + 1)]
        Diverged { name: String, number: u32 } = STEP_OUT_OF_ORDER 409 "step_out_of_order", "Step out of order",
            "The journal of the job has another step at this place, or none before it.",
            "Deploy a handler that meets the steps of the journal in their order, and retry the job.";
        #[error("the result of the step {name:?} has {bytes} bytes, more than {bytes_max}; keep it as an artifact")]
        TooLarge { name: String, bytes: usize, bytes_max: usize } = STEP_TOO_LARGE 422 "step_too_large", "Result of a step too large",
            "The result or a checkpoint of a step is larger than 64 KiB.",
            "Keep it as an artifact or in state, and return its name.";
        #[error("a job may have at most {limit} steps")]
        TooMany { limit: u32 } = JOURNAL_FULL 422 "journal_full", "Journal is full",
            "The job has 10,000 steps, or its journal has 8 MiB.",
            "Do more in each step, or enqueue another job that continues.";
        #[error("the journal of the job would have {bytes} bytes, more than {bytes_max}")]
        Full { bytes: u64, bytes_max: u64 } = JOURNAL_FULL;
    }
}
