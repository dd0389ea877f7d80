//! A job that this one depends on has ended, which means what its conditions say.

use super::{Effect, Refusal};
use crate::failure::{Failure, FailureKind};
use crate::id::JobId;
use crate::job::{Cancel, Lifecycle, State};
use crate::prerequisite::{Verdict, When};
use crate::time::Time;

/// Records that one prerequisite has ended. After the last one, the job is scheduled or available, unless one has ended
/// otherwise than the job needs.
pub(super) fn ended(
    job: &mut Lifecycle,
    now: Time,
    prerequisite: JobId,
    state: State,
) -> Result<Vec<Effect>, Refusal> {
    if !job.waits_for_jobs() {
        return Err(Refusal::WrongState(job.state));
    }
    Ok(match job.judge(prerequisite, state) {
        Verdict::Met => {
            job.prerequisites_open = job.prerequisites_open.saturating_sub(1);
            if job.prerequisites_open == 0 {
                job.enter_queue(now);
            }
            Vec::new()
        }
        Verdict::Failed => discard(job, now, prerequisite),
        Verdict::Unneeded => {
            cancel(job, now, prerequisite, state);
            Vec::new()
        }
    })
}

/// Discards the job because its params cannot have the result of a prerequisite.
pub(super) fn input_failed(
    job: &mut Lifecycle,
    now: Time,
    failure: &Failure,
) -> Result<Vec<Effect>, Refusal> {
    if !job.waits_for_jobs() {
        return Err(Refusal::WrongState(job.state));
    }
    job.failure = Some(failure.kind);
    job.finish(now, State::Discarded);
    let failure = failure.clone();
    Ok(vec![Effect::Failed { failure }])
}

/// Discards the job without an attempt.
fn discard(job: &mut Lifecycle, now: Time, prerequisite: JobId) -> Vec<Effect> {
    job.failure = Some(FailureKind::PrerequisiteFailed);
    job.finish(now, State::Discarded);
    let message = format!("prerequisite_failed: {prerequisite}");
    vec![Effect::Failed {
        failure: Failure::new(FailureKind::PrerequisiteFailed, message),
    }]
}

/// Cancels a job that is there for a failure that did not come.
fn cancel(job: &mut Lifecycle, now: Time, prerequisite: JobId, state: State) {
    let end = match state {
        State::Completed => "completed",
        _ => "was cancelled",
    };
    job.cancel = Some(Cancel {
        requested_at: now,
        reason: Some(format!(
            "not needed: job {prerequisite} {end}, and did not fail"
        )),
        grace_ends_at: None,
    });
    job.failure = Some(FailureKind::Cancelled);
    job.finish(now, State::Cancelled);
}

impl When {
    /// Returns what it means that a prerequisite has ended in this state.
    pub const fn judge(self, ended: State) -> Verdict {
        match (self, ended) {
            (Self::Ended, _)
            | (Self::Completed, State::Completed)
            | (Self::Failed, State::Discarded) => Verdict::Met,
            (Self::Completed, _) => Verdict::Failed,
            (Self::Failed, _) => Verdict::Unneeded,
        }
    }
}

impl Lifecycle {
    /// Returns how a prerequisite has to end. It has several conditions only if it covers several jobs.
    pub fn when(&self, prerequisite: JobId) -> impl Iterator<Item = When> {
        let named = self.conditions.iter().flat_map(|it| &it.when);
        let mut found = named
            .filter(move |(id, _)| *id == prerequisite)
            .map(|(_, when)| *when)
            .peekable();
        let default = found.peek().is_none().then_some(When::Completed);
        found.chain(default)
    }

    /// Returns the names in its inputs of prerequisites, each with the job.
    pub fn inputs(&self) -> impl Iterator<Item = (&str, JobId)> {
        let inputs = self.conditions.iter().flat_map(|it| &it.inputs);
        inputs.map(|(name, id)| (&**name, *id))
    }

    /// Returns what it means for the job that a prerequisite has ended in this state.
    pub fn judge(&self, prerequisite: JobId, ended: State) -> Verdict {
        let verdicts = self.when(prerequisite).map(|when| when.judge(ended));
        let worst = |verdict: &Verdict| match verdict {
            Verdict::Met => 0,
            Verdict::Unneeded => 1,
            Verdict::Failed => 2,
        };
        verdicts.max_by_key(worst).unwrap_or(Verdict::Met)
    }

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
