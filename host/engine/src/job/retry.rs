//! Runs ended jobs again.

use host_core::id::JobId;
use host_core::job::{Lifecycle, State};
use host_core::prerequisite::Verdict;
use host_core::transition::Input;

use super::{JobRefusal, Retry};
use crate::{Batch, Rows, Stop};

impl<R: Rows> Batch<'_, R> {
    /// Runs a job again for an operator. With `force` it does not wait for its prerequisites, even if it has
    /// never run.
    pub(crate) fn retry(&mut self, retry: &Retry) -> Result<Box<Lifecycle>, Stop> {
        let &Retry { job: id, force } = retry;
        let job = self.get(id)?;
        let mut prerequisites_open = if force { 0 } else { job.prerequisites_open };
        let had_ended = job.state.is_terminal();
        let mut waits_for = Vec::new();
        if had_ended {
            let terms = self.rows.terms(id)?;
            if terms.is_foreign {
                return Err(JobRefusal::Foreign.into());
            }
            self.check_live(usize::from(job.state != State::Completed))?;
            self.check_cascade(id)?;
            if prerequisites_open > 0 {
                waits_for = self.open_prerequisites(&job, &terms.depends_on)?;
                prerequisites_open = u32::try_from(waits_for.len()).unwrap_or(u32::MAX);
            }
            // The rules refuse to run a completed job again.
            if let Some(key) = terms.unique_key.filter(|_| job.state != State::Completed) {
                self.take_unique_key(&job, &key)?;
            }
        }
        if had_ended && !force {
            self.give_missing_inputs(&job, &waits_for)?;
        }
        let job = self.apply(&job, &Input::Retry { prerequisites_open })?;
        if had_ended {
            self.rows.set_dependencies(&job, &waits_for)?;
        }
        Ok(Box::new(job))
    }

    /// Returns the jobs that have still to end as this one needs. A prerequisite that ended after its dependent had
    /// ended was not counted then.
    fn open_prerequisites(
        &mut self,
        dependent: &Lifecycle,
        prerequisites: &[JobId],
    ) -> Result<Vec<JobId>, Stop> {
        let mut open = Vec::new();
        for id in prerequisites {
            let Some(job) = self.rows.job(*id)? else {
                return Err(JobRefusal::PrerequisiteGone(*id).into());
            };
            if job.state.is_terminal() {
                if dependent.judge(*id, job.state) == Verdict::Met {
                    continue;
                }
                if job.state == State::Completed {
                    return Err(JobRefusal::PrerequisiteCompleted(*id).into());
                }
                self.check_cascade(*id)?;
            }
            open.push(*id);
        }
        Ok(open)
    }

    /// Refuses to change what a cascade still has to settle: it would discard jobs that are to wait again.
    fn check_cascade(&mut self, prerequisite: JobId) -> Result<(), Stop> {
        if !self.rows.is_cascading(prerequisite)? {
            return Ok(());
        }
        if self.rows.dependencies(&[prerequisite], 1)?.is_empty() {
            return Ok(self.rows.end_cascade(prerequisite)?);
        }
        Err(JobRefusal::CascadeUnfinished(prerequisite).into())
    }

    /// Gives a job its unique key back, unless another job that has not ended holds the key.
    fn take_unique_key(&mut self, job: &Lifecycle, key: &str) -> Result<(), Stop> {
        match self.rows.by_unique_key(&job.queue, key)? {
            Some(other) if other == job.id => Ok(()),
            Some(other) if !self.get(other)?.state.is_terminal() => {
                Err(JobRefusal::UniqueKeyTaken(other).into())
            }
            _ => Ok(self.rows.set_unique_key(job, key)?),
        }
    }

    /// Discards the jobs that wait for one that is about to be purged without having completed: they were
    /// retried, and it was not.
    pub(crate) fn give_up_waiting(&mut self, removed: &Lifecycle) -> Result<(), Stop> {
        if removed.state == State::Completed {
            return Ok(());
        }
        self.cascade(removed)
    }
}
