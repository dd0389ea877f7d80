//! Whether the host was paused between two turns, so that messages of workers could not arrive. Pure.

use host_core::time::Time;

/// How late a turn may begin, in milliseconds.
const LATE_MS: u64 = 1_000;

#[derive(Debug, Default)]
pub(super) struct Pauses {
    turned_at: Time,
}

impl Pauses {
    /// Records the begin of a turn, `due` at a time or right after the turn before. Returns whether it
    /// begins so late that the host was paused.
    pub(super) fn turn(&mut self, due: Option<Time>, now: Time) -> bool {
        let expected = due.map(|due| due.max(self.turned_at));
        self.turned_at = now;
        expected.is_some_and(|expected| now.since_ms(expected) >= LATE_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_late_by_its_due_time_and_the_turn_before() {
        let mut pauses = Pauses::default();
        let mut turn = |due: Option<i64>, now| pauses.turn(due.map(Time), Time(now));
        assert!(!turn(Some(9_000), 9_000));
        // A long wait, and an early wakeup.
        assert!(!turn(Some(99_000), 99_999));
        assert!(!turn(Some(200_000), 150_000));
        // Much has been due for long.
        assert!(!turn(Some(9_000), 150_500));
        assert!(turn(Some(9_000), 151_500));
        assert!(turn(Some(152_000), 153_000));
        assert!(!turn(None, 999_000));
    }
}
