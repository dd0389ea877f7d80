//! Whether the store takes new jobs, and when to check again. Pure.

use host_core::time::Time;

/// The pause before the loop tries a full disk again, in milliseconds.
const FULL_PAUSE_MS: u64 = 250;

/// How often to check that new jobs have room and the store is where it was, in milliseconds.
const CHECK_EVERY_MS: u64 = 1_000;

#[derive(Debug, Default)]
pub(super) struct StoreSpace {
    /// When to try a full disk again.
    full_until: Option<Time>,
    /// When to check whether new jobs have room.
    check_at: Option<Time>,
}

impl StoreSpace {
    /// Returns whether the disk was full when it was last tried.
    pub(super) const fn is_full(&self) -> bool {
        self.full_until.is_some()
    }

    /// Returns when a full disk is tried again, if that is later than `now`.
    pub(super) fn full_until(&self, now: Time) -> Option<Time> {
        self.full_until.filter(|until| now < *until)
    }

    /// Returns whether the loop may try to commit.
    pub(super) fn may_try(&mut self, now: Time) -> bool {
        self.full_until = self.full_until(now);
        self.full_until.is_none()
    }

    /// Records that the disk is full.
    pub(super) const fn record_full(&mut self, now: Time) {
        self.full_until = Some(now.plus_ms(FULL_PAUSE_MS));
    }

    /// Returns when to check whether new jobs have room.
    pub(super) const fn check_at(&self) -> Option<Time> {
        self.check_at
    }

    /// Records a check.
    pub(super) const fn record_check(&mut self, now: Time) {
        self.check_at = Some(now.plus_ms(CHECK_EVERY_MS));
    }
}
