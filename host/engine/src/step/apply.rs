//! Commits steps.

use host_core::lease::Fence;

use super::{CommitStep, Step, StepKey};
use crate::{Batch, Rows, Stop, StoreError};

impl<R: Rows> Batch<'_, R> {
    /// Writes a step, and what the attempt has written since it began, all or nothing.
    pub(super) fn commit_step(&mut self, commit: &CommitStep) -> Result<(), Stop> {
        let job = self.get(commit.job)?;
        job.check_holder(self.now, &Fence::Lease(commit.lease))?;
        let before = match commit.number.checked_sub(1) {
            Some(number) => self.kept_step(commit, number)?,
            None => None,
        };
        let kept = self.kept_step(commit, commit.number)?;
        let step = commit.enter(self.now, before.as_ref(), kept.as_ref())?;
        if let Some(writes) = &commit.writes {
            self.write_inside(&job, writes)?;
        }
        Ok(self.rows.put(&step)?)
    }

    fn kept_step(&mut self, commit: &CommitStep, number: u32) -> Result<Option<Step>, StoreError> {
        let job = commit.job;
        self.rows.get::<Step>(StepKey { job, number })
    }
}
