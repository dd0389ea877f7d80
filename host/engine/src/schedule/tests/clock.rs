//! Schedules while the wall clock is set, and in the nights when local time changes.

use super::rule::ids;
use super::*;
use crate::schedule::Fate;

fn at(text: &str) -> Time {
    Time::parse_rfc3339(text).unwrap()
}

/// What the wall clock shows, minute by minute.
fn minutes(from: &str, to: &str) -> impl Iterator<Item = Time> {
    let minutes = (at(to).0 - at(from).0) / MINUTE;
    let from = at(from).0;
    (0..=minutes).map(move |n| Time(from + n * MINUTE))
}

/// Shows what becomes of the nominal times of a schedule that is set at the first reading of a clock.
fn seen(schedule: Schedule, mut readings: impl Iterator<Item = Time>) -> Vec<String> {
    let mut kept = KeptSchedule::set(schedule, None, readings.next().unwrap());
    let mut seen = Vec::new();
    for now in readings {
        while kept.is_astray(now) || kept.fires_at().is_some_and(|at| at <= now) {
            // The jobs end immediately.
            let plan = kept.plan(now, &ids(1), None, |_| false);
            seen.extend(plan.firings.iter().map(|firing| {
                let nominal = firing.nominal.to_rfc3339().replace(".000Z", "Z");
                match firing.fate {
                    Fate::Fired(_) => nominal,
                    Fate::Missed(times) => format!("{nominal} missed {times}"),
                    ref other => format!("{nominal} {other:?}"),
                }
            }));
            kept.progress = plan.progress;
        }
    }
    seen
}

#[test]
fn a_clock_that_is_set_back_is_followed_within_a_minute() {
    let readings = minutes("2026-05-04T02:20:00Z", "2026-05-04T04:05:00Z")
        .chain(minutes("2026-05-04T02:05:00Z", "2026-05-04T03:05:00Z"));
    let expected = ["02:30", "03:00", "03:30", "04:00", "02:30", "03:00"]
        .map(|time| format!("2026-05-04T{time}:00Z"));
    assert_eq!(seen(every(30 * MINUTE), readings), expected);
    let daily = cron(&["30 2 * * *"], "UTC");
    let readings = minutes("2026-05-04T02:20:00Z", "2026-05-04T04:05:00Z")
        .chain(minutes("2026-05-04T02:05:00Z", "2026-05-05T03:05:00Z"));
    let expected = ["04T02:30", "04T02:30", "05T02:30"].map(|time| format!("2026-05-{time}:00Z"));
    assert_eq!(seen(daily, readings), expected);
}

#[test]
fn a_clock_that_is_set_back_a_minute_repeats_no_firing() {
    let readings = minutes("2026-05-04T02:20:00Z", "2026-05-04T02:30:00Z")
        .chain(minutes("2026-05-04T02:29:00Z", "2026-05-04T02:40:00Z"));
    let expected = ["2026-05-04T02:30:00Z"];
    assert_eq!(seen(every(30 * MINUTE), readings), expected);
}

#[test]
fn a_clock_that_is_set_forward_an_hour_misses_what_catch_up_says() {
    for (catch_up, expected) in [
        (
            CatchUp::Last,
            &["2026-05-04T01:30:00Z missed 1", "2026-05-04T02:00:00Z"][..],
        ),
        (
            CatchUp::All,
            &["2026-05-04T01:30:00Z", "2026-05-04T02:00:00Z"],
        ),
        (CatchUp::None, &["2026-05-04T02:00:00Z missed 2"]),
    ] {
        let schedule = Schedule {
            catch_up,
            ..every(30 * MINUTE)
        };
        let readings = minutes("2026-05-04T01:00:00Z", "2026-05-04T01:05:00Z")
            .chain(minutes("2026-05-04T02:05:00Z", "2026-05-04T02:20:00Z"));
        assert_eq!(seen(schedule, readings), expected, "{catch_up:?}");
    }
}

#[test]
fn a_time_of_day_fires_once_in_each_night_of_a_change() {
    for (from, to, expected) in [
        // 02:30 does not exist on the 29th: it fires when the gap ends, at 03:00.
        (
            "2026-03-28T00:00:00Z",
            "2026-03-30T12:00:00Z",
            [
                "2026-03-28T01:30:00Z",
                "2026-03-29T01:00:00Z",
                "2026-03-30T00:30:00Z",
            ],
        ),
        // 02:30 comes twice on the 25th: the first fires.
        (
            "2026-10-24T00:00:00Z",
            "2026-10-26T12:00:00Z",
            [
                "2026-10-24T00:30:00Z",
                "2026-10-25T00:30:00Z",
                "2026-10-26T01:30:00Z",
            ],
        ),
    ] {
        let schedule = cron(&["30 2 * * *"], "Europe/Berlin");
        assert_eq!(seen(schedule, minutes(from, to)), expected);
    }
}

#[test]
fn hours_follow_real_time_in_the_nights_of_a_change() {
    for (from, to) in [
        ("2026-03-28T22:30:00Z", "2026-03-29T06:30:00Z"),
        ("2026-10-24T22:30:00Z", "2026-10-25T06:30:00Z"),
    ] {
        let hourly = cron(&["0 * * * *"], "Europe/Berlin");
        let by_interval = seen(every(HOUR), minutes(from, to));
        assert_eq!(by_interval.len(), 8);
        assert_eq!(seen(hourly, minutes(from, to)), by_interval);
    }
}
