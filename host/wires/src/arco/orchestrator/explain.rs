//! What a callback is answered whose attempt is not current, from what is kept of its job. Pure.

use host_core::job::State;
use host_core::outcome::Outcome;
use host_core::port::lease::Kept;

use super::read::Said;
use crate::arco::convert::{Ended, final_state};
use crate::arco::messages::FAILED;
use crate::arco::refusals::Refused;

/// Explains why a callback about attempt `number` is refused. `Ok` if it repeats a report that was
/// taken.
pub(super) fn explain(kept: &Kept, number: u32, said: &Said) -> Result<(), Refused> {
    if let Said::Completed(ended) = said
        && was_taken(kept, number, ended)
    {
        return Ok(());
    }
    let lifecycle = &kept.job.lifecycle;
    let state = final_state(lifecycle.state);
    if state.is_none() && lifecycle.attempt != number {
        return Err(Refused::mismatch(lifecycle.attempt, number));
    }
    // An attempt that is not current has failed for the worker, whether or not another one follows.
    let state = state.unwrap_or(FAILED);
    Err(match said {
        Said::Heartbeat(_) => Refused::expired(state),
        Said::Started | Said::Completed(_) => Refused::terminal(state),
    })
}

/// Returns whether exactly this end of the attempt is what was recorded.
fn was_taken(kept: &Kept, number: u32, ended: &Ended) -> bool {
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
        // What an earlier attempt had done is not kept.
        Outcome::Cancelled { partial } => is_latest && kept.job.result == *partial,
        Outcome::Retry { .. } => false,
    }
}
