//! The commands about limits.

use host_core::id::JobId;
use host_core::job::Lifecycle;
use host_core::lease::Fence;
use host_core::name::Name;

use super::Limit;
use crate::commands;

/// Set a limit, new or in place of the one with its name, which must have the same source. Jobs that were enqueued before
/// keep their keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetLimit {
    pub limit: Box<Limit>,
}

/// Forget a limit. Jobs no longer wait for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoveLimit {
    pub limit: Name,
}

/// A hold of the key that a running job has of a limit, for which the job's handler asks. Refused if the job does not
/// have the limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyHold {
    pub job: JobId,
    pub fence: Fence,
    pub limit: Name,
    /// How long no job of the key starts, in milliseconds.
    pub ms: u64,
}

commands! {
    Limit {
        SetLimit(SetLimit) "set_limit" -> (), set_limit, |_| 0, "one limit";
        RemoveLimit(RemoveLimit) "remove_limit" -> (), remove_limit, |_| 0, "one limit";
        Hold(KeyHold) "hold" -> Box<Lifecycle>, hold, |_| 1, "one job";
    }
}
