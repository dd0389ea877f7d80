//! Runs jobs again that have ended.

use host_core::command::Reply;
use host_core::id::JobId;
use host_core::job::{Lifecycle, State};
use host_core::rejection::Rejection;
use host_core::transition::Input;

use super::{Batch, Rows, Stop};

impl<R: Rows> Batch<'_, R> {
    /// Runs a job again for an operator. With `force` it does not wait for its prerequisites, even if it has
    /// never run.
    pub(super) fn retry(&mut self, id: JobId, force: bool) -> Result<Reply, Stop> {
        let job = self.get(id)?;
        let mut prerequisites_open = if force { 0 } else { job.prerequisites_open };
        if job.state.is_terminal() {
            let terms = self.rows.terms(id)?;
            if terms.is_foreign {
                return Err(Rejection::Foreign.into());
            }
            if prerequisites_open > 0 {
                prerequisites_open = self.open_prerequisites(&terms.depends_on)?;
            }
            // The rules refuse to run a completed job again.
            if let Some(key) = terms.unique_key.filter(|_| job.state != State::Completed) {
                self.take_unique_key(&job, &key)?;
            }
        }
        let job = self.apply(&job, &Input::Retry { prerequisites_open })?;
        Ok(Reply::Moved(Box::new(job)))
    }

    /// Counts the jobs that have not completed. A prerequisite that ended after its dependent had ended was
    /// not counted then.
    fn open_prerequisites(&mut self, prerequisites: &[JobId]) -> Result<u32, Stop> {
        let mut open = 0;
        for id in prerequisites {
            match self.rows.job(*id)? {
                None => return Err(Rejection::PrerequisiteGone(*id).into()),
                Some(job) => open += u32::from(job.state != State::Completed),
            }
        }
        Ok(open)
    }

    /// Gives a job its unique key back, unless another job that has not ended holds the key.
    fn take_unique_key(&mut self, job: &Lifecycle, key: &str) -> Result<(), Stop> {
        match self.rows.by_unique_key(&job.queue, key)? {
            Some(other) if other == job.id => Ok(()),
            Some(other) if !self.get(other)?.state.is_terminal() => {
                Err(Rejection::UniqueKeyTaken(other).into())
            }
            _ => Ok(self.rows.set_unique_key(job, key)?),
        }
    }

    /// Discards the jobs that wait for one that is about to be purged without having completed: they were
    /// retried, and it was not.
    pub(super) fn give_up_waiting(&mut self, removed: &Lifecycle) -> Result<(), Stop> {
        if removed.state == State::Completed {
            return Ok(());
        }
        for id in self.rows.dependents(removed.id)? {
            let dependent = self.get(id)?;
            if dependent.state == State::Pending {
                self.apply(&dependent, &Input::PrerequisiteFailed(removed.id))?;
            }
        }
        Ok(())
    }
}
