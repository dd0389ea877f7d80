//! When a worker rests between two turns, with times that are written down.

use super::*;

const US: Duration = Duration::from_micros(1);

/// A worker and who sends it requests, in a time of its own.
struct World {
    pace: Pace,
    now: Duration,
    requests: u64,
    rested: Duration,
    longest: Duration,
}

impl World {
    fn new() -> Self {
        Self {
            pace: Pace::default(),
            now: Duration::from_secs(1),
            requests: 0,
            rested: Duration::ZERO,
            longest: Duration::ZERO,
        }
    }

    fn take(&mut self) {
        if let Some(rest) = self.pace.next(self.now, self.requests) {
            self.now += rest;
            self.rested += rest;
            self.longest = self.longest.max(rest);
        }
    }

    /// Sends a request each `gap`, whatever is answered; each look takes a while.
    fn stream(&mut self, gap: Duration, span: Duration) {
        let end = self.now + span;
        let mut next = self.now;
        while self.now < end {
            self.take();
            self.now = self.now.max(next) + 60 * US;
            while next <= self.now {
                self.requests += 1;
                next += gap;
            }
        }
    }

    /// Sends `in_flight` requests whenever that many are answered.
    fn circle(&mut self, in_flight: u64, round_trip: Duration, span: Duration) -> u64 {
        let (end, before) = (self.now + span, self.requests);
        while self.now < end {
            self.take();
            self.now += round_trip;
            self.requests += in_flight;
        }
        self.requests - before
    }
}

#[test]
fn a_stream_that_does_not_wait_for_answers_is_rested_in() {
    for gap in [220 * US, 400 * US, 900 * US] {
        let mut world = World::new();
        let span = Duration::from_secs(2);
        world.stream(gap, span);
        let part = world.rested.as_secs_f64() / span.as_secs_f64();
        assert!(part > 0.7, "{gap:?}: {part}");
        assert!(world.longest <= REST_MAX);
    }
}

#[test]
fn who_waits_for_answers_loses_little() {
    for (in_flight, round_trip) in [
        (1, 120 * US),
        (1, 700 * US),
        (2, 600 * US),
        (8, 160 * US),
        (8, 2_000 * US),
        (64, 20_000 * US),
    ] {
        let mut world = World::new();
        let span = Duration::from_secs(20);
        let done = count(world.circle(in_flight, round_trip, span));
        let without = count(in_flight) * span.as_secs_f64() / round_trip.as_secs_f64();
        let kept = done / without;
        assert!(kept > 0.96, "{in_flight} each {round_trip:?}: {kept}");
    }
}

#[test]
fn slow_and_fast_streams_are_left_alone() {
    for gap in [30 * US, 1_500 * US, 20_000 * US] {
        let mut world = World::new();
        world.stream(gap, Duration::from_secs(2));
        assert_eq!(world.rested, Duration::ZERO, "{gap:?}");
    }
}

#[test]
fn the_first_request_after_a_stream_waits_for_nothing() {
    let mut world = World::new();
    world.stream(400 * US, Duration::from_secs(2));
    assert_ne!(world.pace.phase, Phase::Awake);
    world.now += Duration::from_secs(1);
    world.requests += 1;
    assert_eq!(world.pace.next(world.now, world.requests), None);
    assert_eq!(world.pace.phase, Phase::Awake);
}

#[test]
fn the_rate_without_rests_is_measured_again_and_again() {
    let mut world = World::new();
    world.stream(400 * US, Duration::from_secs(2));
    assert_ne!(world.pace.phase, Phase::Awake);
    // It now waits for answers, but at a pace that one alone would not betray.
    let before = world.rested;
    world.circle(8, 2_000 * US, Duration::from_secs(20));
    let rested = world.rested.saturating_sub(before);
    assert!(rested < Duration::from_secs(2), "{rested:?}");
}
