//! Answers a callback that the host refuses. Pure.

use host_core::port::lease::LeaseError;

use super::read::Report;
use crate::convert::final_state;
use crate::messages::FAILED;
use crate::refusals::WireRefusal;

/// Words why the host refuses a callback about attempt `number`.
pub(super) fn explain(error: LeaseError, number: u32, report: &Report) -> WireRefusal {
    let end = match error {
        LeaseError::Over(end) => end,
        LeaseError::Unknown => return WireRefusal::task(),
        _ => return WireRefusal::busy(),
    };
    let Some(job) = end.job else {
        return WireRefusal::task();
    };
    let state = final_state(job.state);
    if state.is_none() && job.attempt != number {
        return WireRefusal::mismatch(job.attempt, number);
    }
    // For the worker, an attempt that is not current has failed, whether or not another one follows.
    let state = state.unwrap_or(FAILED);
    match report {
        Report::Heartbeat(_) => WireRefusal::expired(state),
        Report::Started | Report::Completed(_) => WireRefusal::terminal(state),
    }
}
