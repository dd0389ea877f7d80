//! Why commands about queues are refused, and new jobs because of their queue.

use super::refusals;
use crate::name::Name;

refusals! {
    /// Why a queue cannot be changed or made.
    pub enum Refusal {
        #[error("no queue is named {0}")]
        Unknown(Name) = QUEUE_NOT_FOUND 404 "queue_not_found", "No such queue",
            "No queue of this name has or had jobs or is paused.",
            "`host queue ls` lists the queues; a queue exists from its first job on.";
        /// A new job would need a new queue.
        #[error("there are {limit} queues already, and none is named {queue}")]
        TooMany { queue: Name, limit: u64 } = TOO_MANY_QUEUES 409 "too_many_queues", "Too many queues",
            "The host has reached limits.queues. A queue stays known when its last job is gone.",
            "Use a queue that exists; `host queue ls` lists them. Or raise limits.queues.";
    }
}
