//! Waits for a condition with a time limit.

use std::time::{Duration, Instant};

/// Calls `check` repeatedly until it returns a value.
///
/// # Panics
///
/// If `bound` passes. The message contains `what`.
pub fn eventually<T>(what: &str, bound: Duration, mut check: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = check() {
            return value;
        }
        assert!(start.elapsed() < bound, "waited {bound:?} for {what}");
        #[expect(clippy::disallowed_methods, reason = "the only place that polls")]
        std::thread::sleep(Duration::from_millis(5));
    }
}
