//! What is counted and for how long.

use super::{Costs, REVISIONS_MAX, Sample, is_failure};
use crate::outcome::Meter;
use crate::time::Time;

const MINUTE_MS: i64 = 60_000;

fn sample(ran_ms: u64, is_failure: bool) -> Sample {
    Sample {
        ran_ms,
        is_failure,
        meter: Meter {
            fuel: 10 * ran_ms,
            cpu_us: 100 * ran_ms,
            peak_memory_bytes: 1_000 * ran_ms,
        },
    }
}

fn at(minutes: i64) -> Time {
    Time(1_700_000_000_000 / 3_600_000 * 3_600_000 + minutes * MINUTE_MS)
}

#[test]
fn attempts_are_counted_by_revision() {
    let mut costs = Costs::default();
    for ran_ms in 1..=4 {
        costs.add("echo", ("basics", 1), at(0), sample(ran_ms, ran_ms == 4));
    }
    costs.add("echo", ("basics", 2), at(1), sample(8, false));
    costs.add("noop", ("basics", 2), at(1), sample(1, false));
    let shown = costs.of("echo", at(2));
    let numbers: Vec<u32> = shown.iter().map(|cost| cost.revision).collect();
    assert_eq!(numbers, [2, 1], "the newest first");
    let first = &shown[1];
    assert_eq!(first.last_hour, Some(first.last_day));
    let day = first.last_day;
    assert_eq!((day.runs, day.failures), (4, 1));
    assert_eq!((day.ran_ms.p50, day.ran_ms.p99, day.ran_ms.max), (2, 4, 4));
    assert_eq!((day.fuel.max, day.cpu_us.max), (40, 400));
    assert_eq!(day.peak_memory_bytes.max, 4_000);
    assert!(costs.of("missing", at(2)).is_empty());
}

#[test]
fn what_is_older_than_an_hour_and_a_day_is_forgotten() {
    let mut costs = Costs::default();
    costs.add("echo", ("basics", 1), at(0), sample(1, false));
    let runs = |costs: &Costs, minutes| {
        let shown = costs.of("echo", at(minutes));
        let only = shown.first()?;
        Some((only.last_hour.map(|it| it.runs), only.last_day.runs))
    };
    assert_eq!(runs(&costs, 59), Some((Some(1), 1)));
    assert_eq!(runs(&costs, 60), Some((None, 1)));
    assert_eq!(runs(&costs, 24 * 60 - 1), Some((None, 1)));
    assert_eq!(runs(&costs, 24 * 60), None);
    for hours in 0..100 {
        costs.add("echo", ("basics", 1), at(60 * hours), sample(1, false));
    }
    assert_eq!(runs(&costs, 99 * 60), Some((Some(1), 24)));
    // Late reports of attempts that ended long ago are not counted.
    costs.add("echo", ("basics", 1), at(0), sample(1, false));
    assert_eq!(runs(&costs, 99 * 60), Some((Some(1), 24)));
}

#[test]
fn the_revision_that_has_rested_longest_makes_room() {
    let mut costs = Costs::default();
    for number in 0..=REVISIONS_MAX {
        let minutes = i64::try_from(number).unwrap();
        let handler = format!("h{number}");
        costs.add(&handler, ("many", 1), at(minutes), sample(1, false));
        costs.add("h1", ("many", 1), at(minutes), sample(1, false));
    }
    let now = at(i64::try_from(REVISIONS_MAX).unwrap());
    assert!(costs.of("h0", now).is_empty());
    assert_eq!(costs.of("h1", now).len(), 1, "it was used all the time");
    assert_eq!(costs.of("h2", now).len(), 1);
    assert_eq!(costs.of(&format!("h{REVISIONS_MAX}"), now).len(), 1);
}

#[test]
fn a_handler_that_asks_for_another_attempt_has_not_failed() {
    let outcomes = ["completed", "cancelled", "failed", "retry", "lost"];
    assert_eq!(outcomes.map(is_failure), [false, false, true, false, true]);
}
