//! The limits of a job let it pass, or hold it back.

use super::Effect;
use crate::job::{Lifecycle, State};
use crate::rejection::Rejection;
use crate::time::Time;

/// Lets a job ask its limits again, one of which it waits for.
pub(super) fn admit(job: &mut Lifecycle, now: Time) -> Result<Vec<Effect>, Rejection> {
    if job.limits.waits_for.is_none() {
        return Err(Rejection::WrongState(job.state));
    }
    job.enter_queue(now);
    Ok(Vec::new())
}

impl Lifecycle {
    /// Makes a job that is about to become available wait for one of its limits.
    pub fn wait_for_limit(&mut self, place: u8) {
        self.state = State::Pending;
        self.limits.waits_for = Some(place);
    }
}
