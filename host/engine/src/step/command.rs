//! The command that commits a step.

use host_core::id::{JobId, LeaseId};
use host_core::step::StepState;
use host_core::writes::Writes;

use crate::commands;

/// Commit the result or a checkpoint of a step, together with what the attempt has written since. Refused like the end of an
/// attempt if the lease is not current.
#[derive(Clone, Debug, PartialEq)]
pub struct CommitStep {
    pub job: JobId,
    pub lease: LeaseId,
    /// Its place among the steps of the job, from 0.
    pub number: u32,
    pub name: String,
    pub state: StepState,
    pub writes: Option<Box<Writes>>,
}

commands! {
    Step {
        CommitStep(Box<CommitStep>) "commit_step" -> (), commit_step, |step| 1 + step.writes.as_ref().map_or(0, |writes| writes.jobs.len()), "one job and what its attempt wrote, which is limited";
    }
}
