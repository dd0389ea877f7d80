//! An operator's decision about a job that has ended.

use super::Effect;
use crate::job::{Lifecycle, State};
use crate::rejection::Rejection;
use crate::time::Time;

/// Makes a cancelled or discarded job available again, or pending while prerequisites are open. Its
/// id, attempt numbers and lease epoch continue; its earlier attempts no longer count. A deadline
/// that has passed is removed, because the operator wants the job to run anyway.
pub(super) fn retry(
    job: &mut Lifecycle,
    now: Time,
    prerequisites_open: u32,
) -> Result<Vec<Effect>, Rejection> {
    match job.state {
        State::Cancelled | State::Discarded => {}
        State::Completed => return Err(Rejection::Terminal(job.state)),
        state => return Err(Rejection::WrongState(state)),
    }
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
    job.suspect = false;
    job.deaths = 0;
    job.finished_at = None;
    job.failure = None;
    Ok(Vec::new())
}
