//! The commands about queues.

use host_core::name::Name;

use crate::commands;

/// Pause a queue, so that claims skip it, or resume it. A queue that has never had a job may be paused too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetPaused {
    pub queue: Name,
    pub paused: bool,
}

/// Remove a queue that has no jobs. The next job that names it creates it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoveQueue {
    pub queue: Name,
}

commands! {
    Queue {
        SetPaused(SetPaused) "set_paused" -> (), set_paused, |_| 0, "one queue";
        RemoveQueue(RemoveQueue) "remove_queue" -> (), remove_queue, |_| 0, "one queue";
    }
}
