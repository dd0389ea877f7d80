//! When a worker keeps to one core, in windows that are written down.

use super::*;

const STREAM: Seen = Seen {
    rate: 2_000.0,
    run: 0.1,
    awake: 0.5,
};

const HOG: Seen = Seen {
    run: 0.5,
    awake: 1.0,
    ..STREAM
};

const CROWDED: Seen = Seen {
    awake: 0.99,
    ..STREAM
};

const QUIET: Seen = Seen {
    rate: 100.0,
    ..STREAM
};

const FAST: Seen = Seen {
    rate: 20_000.0,
    ..STREAM
};

/// A plan and the time of its windows.
#[derive(Default)]
struct Windows {
    plan: Plan,
    now: Duration,
}

impl Windows {
    /// Returns what is decided after a window.
    fn see(&mut self, seen: Seen) -> bool {
        self.now += WINDOW;
        self.plan.next(self.now, &seen)
    }

    /// Returns how long it takes until a stream is kept on one core.
    fn until_together(&mut self) -> Duration {
        let start = self.now;
        while !self.see(STREAM) {}
        self.now.saturating_sub(start)
    }
}

#[test]
fn a_stream_of_small_requests_is_kept_on_one_core_until_it_ends() {
    let mut windows = Windows::default();
    let seen = [
        QUIET, FAST, HOG, STREAM, STREAM, FAST, STREAM, QUIET, STREAM,
    ];
    let together = seen.map(|seen| windows.see(seen));
    let expected = [false, false, false, true, true, false, true, false, true];
    assert_eq!(together, expected);
}

#[test]
fn one_that_computes_sets_all_free_at_once() {
    let mut windows = Windows::default();
    windows.until_together();
    assert!(!windows.see(HOG));
}

#[test]
fn a_crowd_sets_all_free_when_it_lasts() {
    let mut windows = Windows::default();
    windows.until_together();
    let together = [CROWDED, STREAM, CROWDED, CROWDED].map(|seen| windows.see(seen));
    assert_eq!(together, [true, true, true, false]);
}

#[test]
fn a_core_that_is_too_small_is_tried_ever_more_rarely_until_it_was_large_enough() {
    let mut windows = Windows::default();
    windows.until_together();
    let mut pauses = Vec::new();
    for _ in 0..9 {
        windows.see(HOG);
        pauses.push(windows.until_together().as_millis());
    }
    assert_eq!(
        pauses,
        [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000]
    );
    for _ in 0..100 {
        assert!(windows.see(STREAM));
    }
    windows.see(HOG);
    assert_eq!(windows.until_together(), PAUSE_MIN);
}

#[test]
fn what_is_seen_is_of_the_busiest_thread_that_was_there_before() {
    let ms = Duration::from_millis;
    let times = |run, wait| Times {
        run: ms(run),
        wait: ms(wait),
    };
    let before = Snapshot {
        at: ms(1_000),
        requests: 10,
        threads: vec![(None, times(5, 5)), (Some(7), times(100, 0))],
    };
    let now = Snapshot {
        at: ms(1_020),
        requests: 50,
        threads: vec![
            (None, times(6, 15)),
            (Some(7), times(104, 1)),
            (Some(8), times(500, 500)),
        ],
    };
    let seen = now.since(&before);
    let expected = Seen {
        rate: 2_000.0,
        run: 0.2,
        awake: 0.55,
    };
    for (seen, expected) in [
        (seen.rate, expected.rate),
        (seen.run, expected.run),
        (seen.awake, expected.awake),
    ] {
        assert!((seen - expected).abs() < 1e-9, "{seen} and {expected}");
    }
}

#[test]
fn the_kernel_counts_for_this_thread() {
    // A thread's first time may be counted later, but it is there to be read.
    assert!(times(OWN_TIMES).is_some());
    assert_eq!(times("/proc/thread-self/comm"), None);
}
