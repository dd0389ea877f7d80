//! Nominal times, compared with what another library says about time zones.

use std::collections::BTreeMap;

use chrono::{Offset as _, TimeZone as _};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use proptest::prelude::*;

use super::*;
use crate::schedule::{Calendar, CalendarError, ScheduleError};

fn at(text: &str) -> Time {
    Time::parse_rfc3339(text).unwrap()
}

fn coming(schedule: &Schedule, after: &str, count: usize) -> Vec<String> {
    let times = schedule.coming(at(after)).take(count);
    times.map(Time::to_rfc3339).collect()
}

#[test]
fn patterns_have_five_or_six_fields_and_names() {
    for (patterns, expected) in [
        (vec!["30 2 * * *"], "2026-03-01T02:30:00.000Z"),
        (vec!["15 30 2 * * *"], "2026-03-01T02:30:15.000Z"),
        (vec!["@daily"], "2026-03-01T00:00:00.000Z"),
        (vec!["@hourly"], "2026-02-28T13:00:00.000Z"),
        (vec!["0 9 * * MON"], "2026-03-02T09:00:00.000Z"),
        (vec!["0 9 L * *"], "2026-03-31T09:00:00.000Z"),
        (vec!["0 0 29 2 *"], "2028-02-29T00:00:00.000Z"),
        (vec!["0 18 * * *", "0 13 * * *"], "2026-02-28T13:00:00.000Z"),
    ] {
        let schedule = cron(&patterns, "UTC");
        let next = schedule.next_after(at("2026-02-28T12:00:00Z"));
        let next = next.map(Time::to_rfc3339);
        assert_eq!(next.as_deref(), Some(expected), "{patterns:?}");
    }
}

#[test]
fn what_cannot_fire_is_refused() {
    let now = at("2026-01-01T00:00:00Z");
    let error = |schedule: Schedule| schedule.check(now).unwrap_err().to_string();
    let long = "*".repeat(257);
    for (pattern, expected) in [
        ("", "when.cron: a pattern must have 1–256 bytes, got 0"),
        (&long, "when.cron: a pattern must have 1–256 bytes, got 257"),
        (
            "61 2 * * *",
            "when.cron: \"61 2 * * *\" is not a valid pattern: number out of bounds",
        ),
        (
            "0 0 30 2 *",
            "when: it never fires between from and until, or within ten years",
        ),
    ] {
        assert_eq!(error(cron(&[pattern], "UTC")), expected);
    }
    for pattern in [
        "every day",
        "60 * * * *",
        "* * *",
        "* * * * * * *",
        "0/0 * * * *",
    ] {
        let error = cron(&[pattern], "UTC").check(now).unwrap_err();
        let is_pattern = matches!(
            error,
            ScheduleError::Calendar(CalendarError::Pattern { .. })
        );
        assert!(is_pattern, "{pattern}: {error}");
    }
    let zone = "time_zone: \"Mars/Olympus\" is not the name of a time zone; write one such as Europe/Berlin";
    assert_eq!(error(cron(&["@daily"], "Mars/Olympus")), zone);
    assert_eq!(
        error(cron(&[], "UTC")),
        "when.cron: must have 1–32 patterns, got 0"
    );
    assert_eq!(
        error(every(999)),
        "when.every: must be 1s to 365d, got 999ms"
    );
    let phase = schedule(When::Every {
        ms: 2_000,
        phase_ms: 2_000,
    });
    assert_eq!(error(phase), "when.phase: must be shorter than when.every");
    let spread = Schedule {
        spread_ms: 60_000,
        ..every(MINUTE)
    };
    let expected = "spread: must be shorter than the 60s between two firings";
    assert_eq!(error(spread), expected);
    let ended = Schedule {
        until: Some(now),
        ..every(MINUTE)
    };
    assert_eq!(ended.check(now), Err(ScheduleError::NeverFires));
    let backwards = Schedule {
        from: Some(now),
        ..ended
    };
    assert_eq!(backwards.check(now), Err(ScheduleError::Ends));
}

#[test]
fn nothing_fires_before_from_or_after_until() {
    let from = Some(at("2026-01-01T00:02:00Z"));
    let until = Some(at("2026-01-01T00:03:30Z"));
    let schedule = Schedule {
        from,
        until,
        ..every(MINUTE)
    };
    let expected = ["2026-01-01T00:02:00.000Z", "2026-01-01T00:03:00.000Z"];
    assert_eq!(coming(&schedule, "2025-06-01T00:00:00Z", 9), expected);
}

#[test]
fn a_time_in_a_gap_is_its_end_and_one_in_an_overlap_comes_once() {
    let berlin = cron(&["30 2 * * *"], "Europe/Berlin");
    let spring = [
        "2026-03-28T01:30:00.000Z",
        "2026-03-29T01:00:00.000Z",
        "2026-03-30T00:30:00.000Z",
    ];
    assert_eq!(coming(&berlin, "2026-03-28T00:00:00Z", 3), spring);
    let autumn = [
        "2026-10-24T00:30:00.000Z",
        "2026-10-25T00:30:00.000Z",
        "2026-10-26T01:30:00.000Z",
    ];
    assert_eq!(coming(&berlin, "2026-10-24T00:00:00Z", 3), autumn);
    let halves = cron(&["*/30 * * * *"], "Europe/Berlin");
    let times = coming(&halves, "2026-10-25T00:00:00Z", 4);
    let real =
        ["00:30", "01:00", "01:30", "02:00"].map(|time| format!("2026-10-25T{time}:00.000Z"));
    assert_eq!(times, real);
    let calendar = berlin.calendar().unwrap();
    assert_eq!(
        calendar.local(at("2026-07-01T00:00:00Z")),
        "2026-07-01T02:00:00+02:00"
    );
    assert_eq!(
        calendar.local(at("2026-12-01T00:00:00Z")),
        "2026-12-01T01:00:00+01:00"
    );
}

/// Returns the first time after `after` that a daily pattern has, as jiff sees the zone.
fn expected(zone: &TimeZone, after: Timestamp, hour: i8, minute: i8) -> Timestamp {
    let mut day = after
        .to_zoned_datetime(zone.clone())
        .date()
        .yesterday()
        .unwrap();
    loop {
        let local = day.at(hour, minute, 0, 0);
        if let Some(time) = instant(zone, local).filter(|time| *time > after) {
            return time;
        }
        day = day.tomorrow().unwrap();
    }
}

/// Returns the instant of a local time: the first of two, and the end of a gap that has it.
fn instant(zone: &TimeZone, local: DateTime) -> Option<Timestamp> {
    use jiff::tz::AmbiguousOffset::{Fold, Gap, Unambiguous};
    match zone.to_ambiguous_timestamp(local).offset() {
        Unambiguous { offset } => offset.to_timestamp(local).ok(),
        Fold { before, .. } => before.to_timestamp(local).ok(),
        Gap { .. } => {
            let after = zone.to_ambiguous_timestamp(local).later().ok()?;
            Some(zone.preceding(after).next()?.timestamp())
        }
    }
}

/// Returns whether both time zone databases say the same around a transition: they are not of the same version.
fn agree(zone: chrono_tz::Tz, other: &TimeZone, instant: Timestamp) -> bool {
    [-40, -4, -3, -2, -1, 0, 1, 2, 3, 4, 40]
        .into_iter()
        .all(|hours: i64| {
            let at = instant + hours.hours();
            let time = chrono::DateTime::from_timestamp(at.as_second(), 0).unwrap();
            let offset = zone.offset_from_utc_datetime(&time.naive_utc()).fix();
            offset.local_minus_utc() == other.to_offset(at).seconds()
        })
}

/// Returns whether a zone shows a local time of day at `instant`, or begins to show later ones there: a few zones have
/// records of transitions that change nothing.
fn is_plain(zone: &TimeZone, instant: Timestamp, local: DateTime) -> bool {
    let shown = instant.to_zoned_datetime(zone.clone()).time();
    let before = instant - 1.seconds();
    shown == local.time().with().second(0).build().unwrap()
        || zone.to_offset(instant).seconds() > zone.to_offset(before).seconds()
}

#[test]
fn each_transition_of_each_zone_is_met() {
    let first = "2000-01-01T00:00:00Z".parse::<Timestamp>().unwrap();
    let last = "2040-01-01T00:00:00Z".parse::<Timestamp>().unwrap();
    let mut wrong: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut transitions = 0;
    let step = if std::env::var_os("HOST_LONG_TESTS").is_some() {
        1
    } else {
        24
    };
    for zone in chrono_tz::TZ_VARIANTS.into_iter().step_by(step) {
        let name = zone.name();
        let Ok(other) = TimeZone::get(name) else {
            continue;
        };
        for transition in other
            .following(first)
            .take_while(|it| it.timestamp() < last)
        {
            let instant = transition.timestamp();
            if !agree(zone, &other, instant) {
                continue;
            }
            transitions += 1;
            let before = instant.to_zoned_datetime(other.clone());
            // Half an hour to either side of the transition, as the clock on the wall showed it before and after.
            for minutes in [-31_i64, -1, 0, 29] {
                let Ok(local) = before.datetime().checked_add(minutes.minutes()) else {
                    continue;
                };
                let (hour, minute) = (local.hour(), local.minute());
                let pattern = format!("{minute} {hour} * * *");
                let schedule = cron(&[&pattern], name);
                let start = instant - 36.hours();
                let mut after = start;
                for time in schedule.coming(Time(start.as_millisecond())).take(3) {
                    let other_time = expected(&other, after, hour, minute);
                    after = Timestamp::from_millisecond(time.0).unwrap();
                    if other_time != after && is_plain(&other, other_time, local) {
                        let seen = format!("{pattern} at {instant}: {after}, not {other_time}");
                        wrong.entry(name.to_owned()).or_default().push(seen);
                        break;
                    }
                }
            }
        }
    }
    assert!(transitions > 10_000 / step, "{transitions}");
    let zones = wrong.len();
    let some: Vec<_> = wrong.into_iter().take(5).collect();
    assert!(some.is_empty(), "{zones} zones differ: {some:#?}");
}

proptest! {
    #[test]
    fn an_interval_comes_at_its_multiples(ms in 1_000_i64..10_000_000, phase in 0_i64..1_000, after in -1_000_000_000_i64..4_000_000_000_000) {
        let when = When::Every { ms: ms.unsigned_abs(), phase_ms: phase.unsigned_abs() };
        let calendar = Calendar::new(&when, "UTC").unwrap();
        let next = calendar.after(Time(after)).unwrap();
        prop_assert!(next.0 > after && next.0 <= after + ms);
        prop_assert_eq!((next.0 - phase).rem_euclid(ms), 0);
    }
}
