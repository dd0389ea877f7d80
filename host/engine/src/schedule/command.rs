//! The commands about schedules.

use host_core::id::JobId;
use host_core::job::NewJob;
use host_core::name::Name;
use host_core::time::Time;

use super::{Firing, Schedule};
use crate::commands;

/// Set a schedule, new or in place of the one with its name, which must have the same source.
#[derive(Clone, Debug, PartialEq)]
pub struct SetSchedule {
    pub schedule: Box<Schedule>,
    /// What the wall clock shows.
    pub wall: Time,
}

/// Forget a schedule. Its jobs stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoveSchedule {
    pub schedule: Name,
}

/// Enqueue the jobs of a schedule that are due, and record what becomes of each nominal time.
#[derive(Clone, Debug, PartialEq)]
pub struct Fire {
    pub schedule: Name,
    /// The version of the schedule that was looked at. If it has changed since, nothing happens.
    pub version: u64,
    /// The jobs of the schedule that had not ended: named here so that a store can look all of them up together.
    pub open: Vec<JobId>,
    /// What the wall clock shows.
    pub wall: Time,
    /// New ids, one for each job that it may enqueue.
    pub ids: Vec<JobId>,
    /// The template of these jobs, or why they are refused.
    pub job: Result<Box<NewJob>, String>,
    /// The nominal times to enqueue jobs for, regardless of running jobs; `None` for those that are due.
    pub nominals: Option<Vec<Time>>,
}

commands! {
    Schedule {
        SetSchedule(SetSchedule) "set_schedule" -> (), set_schedule, |_| 0, "one schedule";
        RemoveSchedule(RemoveSchedule) "remove_schedule" -> (), remove_schedule, |_| 0, "one schedule and its latest firings";
        Fire(Box<Fire>) "fire" -> Vec<Firing>, fire, |fire| fire.ids.len() + fire.open.len(), "one schedule, a number of nominal times, and one job for each id";
    }
}
