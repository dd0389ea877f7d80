//! An operator's decisions about a job.

use super::{Effect, Refusal};
use crate::job::{Lifecycle, State};
use crate::suspicion::Suspicion;
use crate::time::Time;

/// Makes a cancelled or discarded job available again, or pending while prerequisites are open. Its
/// id, attempt numbers and lease epoch continue; its earlier attempts no longer count. A deadline
/// that has passed is removed, because the operator wants the job to run anyway. A pending job that is
/// to wait for none of its prerequisites any more enters the queue.
pub(super) fn retry(
    job: &mut Lifecycle,
    now: Time,
    prerequisites_open: u32,
) -> Result<Vec<Effect>, Refusal> {
    match job.state {
        State::Cancelled | State::Discarded => {}
        State::Pending if prerequisites_open == 0 && job.waits_for_jobs() => {
            job.prerequisites_open = 0;
            job.enter_queue(now);
            return Ok(Vec::new());
        }
        State::Completed => return Err(Refusal::Terminal(job.state)),
        state => return Err(Refusal::WrongState(state)),
    }
    job.ended_ms += job.finished_at.map_or(0, |ended| now.since_ms(ended));
    if job.is_overdue(now) {
        job.deadline = None;
    }
    job.state = if prerequisites_open == 0 {
        State::Available
    } else {
        State::Pending
    };
    job.prerequisites_open = prerequisites_open;
    job.attempts_forgiven = job.attempt;
    job.attempts_uncharged = 0;
    job.cancel = None;
    job.suspicion = Suspicion::NONE;
    job.finished_at = None;
    job.failure = None;
    Ok(Vec::new())
}

/// Gives a job another priority, which holds from its next claim.
pub(super) fn set_priority(job: &mut Lifecycle, priority: u8) -> Result<Vec<Effect>, Refusal> {
    if job.state.is_terminal() {
        return Err(Refusal::Terminal(job.state));
    }
    job.priority = priority;
    Ok(Vec::new())
}

/// Moves the start of a job that waits. One that waits for other jobs keeps waiting for them, and one that waits for a
/// limit if it may start now.
pub(super) fn reschedule(
    job: &mut Lifecycle,
    now: Time,
    run_at: Time,
) -> Result<Vec<Effect>, Refusal> {
    let run_at = (run_at > now).then_some(run_at);
    job.state = match (job.state, run_at) {
        (state, _) if state.is_terminal() => {
            return Err(Refusal::Terminal(state));
        }
        (State::Running, _) => return Err(Refusal::WrongState(job.state)),
        (State::Pending, Some(_)) if !job.waits_for_jobs() => State::Scheduled,
        (State::Pending, _) => State::Pending,
        (_, None) => State::Available,
        (State::Retryable, Some(_)) => State::Retryable,
        (_, Some(_)) => State::Scheduled,
    };
    job.run_at = run_at;
    Ok(Vec::new())
}

/// Purges an ended job before its retention is over.
pub(super) fn purge(job: &Lifecycle) -> Result<Vec<Effect>, Refusal> {
    if !job.state.is_terminal() {
        return Err(Refusal::WrongState(job.state));
    }
    Ok(vec![Effect::Purge])
}
