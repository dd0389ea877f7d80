//! How fast a copy is made of what a busy host writes to.

use std::thread::sleep;
use std::time::Instant;

/// A step of a copy, since when it has gone on.
pub(super) struct Step(Instant);

#[expect(
    clippy::disallowed_methods,
    reason = "a pause that a measured time decides is what this is for"
)]
impl Step {
    pub(super) fn begin() -> Self {
        Self(Instant::now())
    }

    /// Ends the step, rests for as long as it took, and begins the next one: the host has the disk and
    /// the processor for itself half of the time.
    pub(super) fn rest(&mut self) {
        sleep(self.0.elapsed());
        *self = Self::begin();
    }
}
