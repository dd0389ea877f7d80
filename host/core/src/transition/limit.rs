//! The limits of a job let it pass, or hold it back; and its handler holds a key of one.

use super::{Effect, Refusal};
use crate::job::{Lifecycle, State};
use crate::lease::Fence;
use crate::time::Time;

/// Lets a job ask its limits again, one of which it waits for.
pub(super) fn admit(job: &mut Lifecycle, now: Time) -> Result<Vec<Effect>, Refusal> {
    if job.limits.waits_for.is_none() {
        return Err(Refusal::WrongState(job.state));
    }
    job.enter_queue(now);
    Ok(Vec::new())
}

/// Makes an available job wait for one of its limits again.
pub(super) fn withhold(job: &mut Lifecycle, place: u8) -> Result<Vec<Effect>, Refusal> {
    if job.state != State::Available || job.limits.keys.len() <= usize::from(place) {
        return Err(Refusal::WrongState(job.state));
    }
    job.wait_for_limit(place);
    Ok(Vec::new())
}

/// Notes that the attempt has held a key: it does not count if it asks for a retry.
pub(super) fn hold(job: &mut Lifecycle, now: Time, fence: &Fence) -> Result<Vec<Effect>, Refusal> {
    job.check_holder(now, fence)?;
    job.limits.held_in = job.attempt;
    Ok(Vec::new())
}

impl Lifecycle {
    /// Makes a job that is about to become available wait for one of its limits.
    pub fn wait_for_limit(&mut self, place: u8) {
        self.state = State::Pending;
        self.limits.waits_for = Some(place);
    }
}
