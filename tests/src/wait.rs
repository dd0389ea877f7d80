//! Waits for a condition, with a bound.

use std::time::{Duration, Instant};

/// Asks `check` again and again until it gives a value.
///
/// # Panics
///
/// After `bound`, naming `what` it waited for.
pub fn eventually<T>(what: &str, bound: Duration, mut check: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = check() {
            return value;
        }
        assert!(
            start.elapsed() < bound,
            "waited {bound:?} in vain for {what}"
        );
        #[expect(clippy::disallowed_methods, reason = "the one place that polls")]
        std::thread::sleep(Duration::from_millis(5));
    }
}
