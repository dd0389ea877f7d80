//! The command about queues.

use super::commands;
use crate::name::Name;

/// Pause a queue, so that claims skip it, or resume it. A queue that has never had a job may be paused too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetPaused {
    pub queue: Name,
    pub paused: bool,
}

commands! {
    Queue {
        SetPaused(SetPaused) "set_paused" -> (),
    }
}
