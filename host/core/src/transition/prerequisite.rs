//! A job that this one depends on has ended.

use super::Effect;
use crate::failure::{Failure, FailureKind};
use crate::id::JobId;
use crate::job::{Lifecycle, State};
use crate::rejection::Rejection;
use crate::time::Time;

/// Records that one prerequisite has completed. After the last one, the job is scheduled or
/// available.
pub(super) fn completed(job: &mut Lifecycle, now: Time) -> Result<Vec<Effect>, Rejection> {
    if !job.waits_for_jobs() {
        return Err(Rejection::WrongState(job.state));
    }
    job.prerequisites_open = job.prerequisites_open.saturating_sub(1);
    if job.prerequisites_open == 0 {
        job.enter_queue(now);
    }
    Ok(Vec::new())
}

/// Discards the job without an attempt.
pub(super) fn failed(
    job: &mut Lifecycle,
    now: Time,
    prerequisite: JobId,
) -> Result<Vec<Effect>, Rejection> {
    if !job.waits_for_jobs() {
        return Err(Rejection::WrongState(job.state));
    }
    job.failure = Some(FailureKind::PrerequisiteFailed);
    job.finish(now, State::Discarded);
    Ok(vec![Effect::Failed {
        failure: Failure::new(
            FailureKind::PrerequisiteFailed,
            format!("prerequisite_failed: {prerequisite}"),
        ),
    }])
}

impl Lifecycle {
    /// Schedules a job that no longer waits for others, or makes it available if its start time has
    /// come.
    pub(super) fn enter_queue(&mut self, now: Time) {
        if self.run_at.is_some_and(|start| start > now) {
            self.state = State::Scheduled;
        } else {
            self.state = State::Available;
            self.run_at = None;
        }
    }
}
