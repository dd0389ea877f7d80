//! Why commands about queues are refused, and new jobs because of their queue.

use host_core::name::Name;

use crate::refusals;

refusals! {
    /// Why a queue cannot be changed or made.
    pub enum QueueRefusal {
        #[error("no queue is named {0}")]
        Unknown(Name) = QUEUE_NOT_FOUND 404 "queue_not_found", "No such queue",
            "No queue of this name has or had jobs or is paused.",
            "`host queue ls` lists the queues; a queue exists from its first job on. `host queue pause --create` makes one that is paused.";
        /// Only a queue without jobs can be removed.
        #[error("queue {0} has jobs")]
        HasJobs(Name) = QUEUE_HAS_JOBS 409 "queue_has_jobs", "The queue has jobs",
            "A queue that has jobs, also completed ones that are still kept, cannot be removed.",
            "`host job cancel` and `host job purge` with `--queue NAME` end and remove its jobs.";
        /// A new job would need a new queue.
        #[error("there are {limit} queues already, and none is named {queue}")]
        TooMany { queue: Name, limit: u64 } = TOO_MANY_QUEUES 409 "too_many_queues", "Too many queues",
            "The host has reached limits.queues. A queue stays known when its last job is gone.",
            "Use a queue that exists; `host queue ls` lists them. Or remove one with `host queue rm`, or raise limits.queues.";
    }
}
