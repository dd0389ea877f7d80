//! Steps: parts of a job that are done once. The result of each is committed together with what the attempt has written since
//! the step began, and is removed with the job.

mod apply;
mod command;
mod refusal;
mod rule;
pub mod tables;
#[cfg(test)]
mod tests;

use host_core::id::JobId;
use host_core::step::StepState;
use host_core::time::Time;

use crate::table::{Range, Value};
use crate::{Reader, StoreError};

pub use self::command::*;
pub use self::refusal::*;

/// A step in the journal of its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub job: JobId,
    /// Its place among the steps of the job, from 0.
    pub number: u32,
    /// With `#2` for the second step of a name, and so on.
    pub name: String,
    pub state: StepState,
    /// When it was committed.
    pub at: Time,
    /// The size of the journal up to this step, in bytes.
    pub journal_bytes: u64,
}

/// Names a step.
#[derive(Clone, Copy, Debug)]
pub struct StepKey {
    pub job: JobId,
    pub number: u32,
}

impl dyn Reader + '_ {
    /// Returns a step of a job.
    pub fn step(&self, job: JobId, number: u32) -> Result<Option<Step>, StoreError> {
        self.get::<Step>(StepKey { job, number })
    }

    /// Returns the first steps of a job after `after`, in their order.
    pub fn steps(
        &self,
        job: JobId,
        after: Option<u32>,
        limit: u32,
    ) -> Result<Vec<Step>, StoreError> {
        let of_job: Vec<Value> = vec![job.0.into()];
        let range = Range::of(of_job).first(limit);
        self.list::<Step>(match after {
            Some(number) => range.after(number),
            None => range,
        })
    }
}
