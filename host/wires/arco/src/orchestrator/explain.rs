//! Answers a callback whose attempt is not current, from the stored job. Pure.

use host_core::job::State;
use host_core::outcome::Outcome;
use host_core::port::lease::Kept;

use super::read::Report;
use crate::convert::{Ended, final_state};
use crate::messages::FAILED;
use crate::refusals::Refused;

/// Explains why a callback about attempt `number` is refused. If it repeats a report that was accepted, returns
/// the state of the job after that attempt.
pub(super) fn explain(kept: &Kept, number: u32, report: &Report) -> Result<State, Refused> {
    let lifecycle = &kept.job.lifecycle;
    if let Report::Completed(ended) = report
        && was_accepted(kept, number, ended)
    {
        return Ok(if lifecycle.attempt == number {
            lifecycle.state
        } else {
            State::Retryable
        });
    }
    let state = final_state(lifecycle.state);
    if state.is_none() && lifecycle.attempt != number {
        return Err(Refused::mismatch(lifecycle.attempt, number));
    }
    // For the worker, an attempt that is not current has failed, whether or not another one follows.
    let state = state.unwrap_or(FAILED);
    Err(match report {
        Report::Heartbeat(_) => Refused::expired(state),
        Report::Started | Report::Completed(_) => Refused::terminal(state),
    })
}

/// Returns whether exactly this end of the attempt was recorded.
fn was_accepted(kept: &Kept, number: u32, ended: &Ended) -> bool {
    let mut attempts = kept.attempts.iter();
    let Some(recorded) = attempts.find(|attempt| attempt.number == number) else {
        return false;
    };
    if recorded.outcome != ended.outcome.as_str() || recorded.meter != ended.meter {
        return false;
    }
    let is_latest = kept.job.lifecycle.attempt == number;
    match &ended.outcome {
        Outcome::Completed { result } => {
            let is_completed = kept.job.lifecycle.state == State::Completed;
            is_completed && is_latest && kept.job.result == *result
        }
        Outcome::Failed(failure) => recorded.failure.as_ref() == Some(failure),
        // The partial result of an earlier attempt is not stored.
        Outcome::Cancelled { partial } => is_latest && kept.job.result == *partial,
        Outcome::Retry { .. } => false,
    }
}
