//! Counts the steps of searches, so that tests can bound them without a clock.

use std::cell::Cell;

thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

/// Counts a step: a month or a stretch of time with one offset that is looked at.
pub(super) fn take() {
    TAKEN.set(TAKEN.get() + 1);
}

/// Returns how many steps `work` takes, and what it returns.
pub(in crate::schedule) fn count<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let before = TAKEN.get();
    let done = work();
    (TAKEN.get() - before, done)
}
