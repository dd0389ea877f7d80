//! The workers of our jobs: how each answers, and how many attempts it has. Pure.

use host_core::port::Tag;
use host_runtime::backoff::Backoff;

/// How many failed dispatches in a row make a worker count as down.
const FAILURES_UNTIL_DOWN: u32 = 3;

/// How a worker answers dispatches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answers {
    /// Whether it has ever answered.
    pub(super) has_answered: bool,
    /// How many dispatches in a row failed.
    pub(super) failures: u32,
    /// Why the last one failed.
    pub(super) reason: Option<String>,
    /// Whether the last one did not reach it, or it refuses them all.
    is_missed: bool,
}

impl Answers {
    fn answered(&mut self) {
        self.has_answered = true;
        self.failures = 0;
        self.reason = None;
        self.is_missed = false;
    }

    pub(super) fn failed(&mut self, reason: String) {
        self.failures = self.failures.saturating_add(1);
        self.reason = Some(reason);
    }

    pub(super) fn is_down(&self) -> bool {
        self.is_missed || self.failures >= FAILURES_UNTIL_DOWN
    }
}

/// One worker.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) answers: Answers,
    /// How many attempts it has.
    pub(super) in_flight: usize,
    pub(super) in_flight_max: usize,
    /// The request for attempts that the host has not answered, and for how many slots it is.
    pub(super) ask: Option<(Tag, usize)>,
    /// Whether the attempts that were leased before the host restarted are known.
    pub(super) is_resumed: bool,
    /// Whether to ask for nothing before the next probe.
    is_paused: bool,
    backoff: Backoff,
}

impl Worker {
    pub(super) fn new(in_flight_max: usize) -> Self {
        Self {
            answers: Answers::default(),
            in_flight: 0,
            in_flight_max,
            ask: None,
            is_resumed: false,
            is_paused: false,
            backoff: Backoff::new(200, 10_000),
        }
    }

    /// Records that it accepted a dispatch, asked for a later one, or called back.
    pub(super) fn answered(&mut self) {
        self.answers.answered();
        self.backoff.reset();
        self.is_paused = false;
    }

    /// Records that a dispatch did not reach it. Returns after how many milliseconds to send it another one.
    pub(super) fn missed(&mut self) -> u64 {
        (self.answers.is_missed, self.is_paused) = (true, true);
        self.backoff.next_ms()
    }

    /// Allows the next probe.
    pub(super) const fn probe(&mut self) {
        self.is_paused = false;
    }

    /// Returns for how many slots to ask. A worker that is down gets one attempt at a time, to see when it
    /// is up again.
    pub(super) fn free_slots(&self, is_delivering: impl FnOnce() -> bool) -> usize {
        if self.is_paused {
            return 0;
        }
        let free = self.in_flight_max.saturating_sub(self.in_flight);
        if self.answers.is_down() {
            free.min(usize::from(!is_delivering()))
        } else {
            free
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_down_after_some_failures_in_a_row() {
        let mut worker = Worker::new(16);
        let answers = &mut worker.answers;
        for _ in 1..FAILURES_UNTIL_DOWN {
            answers.failed("no".to_owned());
        }
        assert!(!answers.is_down());
        answers.failed("nothing listens".to_owned());
        assert!(answers.is_down());
        assert_eq!(answers.reason.as_deref(), Some("nothing listens"));
        assert_eq!(
            [true, false].map(|is_it| worker.free_slots(|| is_it)),
            [0, 1]
        );
        worker.answered();
        let answers = Answers {
            has_answered: true,
            ..Answers::default()
        };
        assert_eq!(worker.answers, answers);
        worker.in_flight = 20;
        assert_eq!(worker.free_slots(|| false), 0);
    }

    #[test]
    fn a_worker_that_cannot_be_reached_is_probed_with_growing_pauses() {
        let mut worker = Worker::new(16);
        for pause_ms in [200, 400, 800] {
            assert_eq!(worker.missed(), pause_ms);
            assert_eq!(worker.free_slots(|| false), 0);
            worker.probe();
            assert_eq!(
                [true, false].map(|is_it| worker.free_slots(|| is_it)),
                [0, 1]
            );
        }
        worker.missed();
        worker.answered();
        assert_eq!((worker.free_slots(|| true), worker.missed()), (16, 200));
    }
}
