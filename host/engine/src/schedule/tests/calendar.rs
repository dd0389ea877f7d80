//! Nominal times, compared with what another library says about time zones.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDateTime, NaiveTime, Offset as _, TimeDelta, TimeZone as _};
use chrono_tz::Tz;
use croner::Cron;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use proptest::prelude::*;

use super::*;
use crate::schedule::calendar::steps::count;
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
        (vec!["@midnight"], "2026-03-01T00:00:00.000Z"),
        (vec!["@Weekly"], "2026-03-01T00:00:00.000Z"),
        (vec!["0 9 * * friday"], "2026-03-06T09:00:00.000Z"),
        (vec!["0 9 * september sat-sun"], "2026-09-05T09:00:00.000Z"),
        (vec!["0 9 * * FRIL"], "2026-03-27T09:00:00.000Z"),
        (vec!["0 9 ? * ?"], "2026-03-01T09:00:00.000Z"),
        // A step that is longer than the field leaves its first value.
        (vec!["*/90 * * * *"], "2026-02-28T13:00:00.000Z"),
        // On each Friday and on each 13th, or on the Fridays that are a 13th.
        (vec!["0 0 13 * FRI"], "2026-03-06T00:00:00.000Z"),
        (vec!["0 0 13 * +FRI"], "2026-03-13T00:00:00.000Z"),
    ] {
        let schedule = cron(&patterns, "UTC");
        let next = schedule
            .next_after(at("2026-02-28T12:00:00Z"))
            .map(Time::to_rfc3339);
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
            "when.cron: \"61 2 * * *\" is not a valid pattern: a number is out of range; minutes are 0–59, \
             hours 0–23, days 1–31, months 1–12, weekdays 0–7",
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
    for name in [
        "Factory",
        "factory",
        "posixrules",
        "localtime",
        "Etc/Unknown",
        "right/UTC",
        "UTC0",
        "+01:00",
        "",
    ] {
        let message = error(cron(&["@daily"], name));
        assert!(
            message.contains("is not the name of a time zone"),
            "{message}"
        );
    }
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
fn what_is_easily_mistaken_is_refused_in_our_words() {
    let now = at("2026-01-01T00:00:00Z");
    let error = |schedule: Schedule| schedule.check(now).unwrap_err().to_string();
    for (pattern, reason) in [
        (
            "0 9 * * MON, FRI",
            "\"MON,\" has a comma without a value before or after it; write lists without spaces, such as 1,15",
        ),
        (
            "0,30 9, 17 * * *",
            "\"9,\" has a comma without a value before or after it; write lists without spaces, such as 1,15",
        ),
        (
            ", * * * *",
            "\",\" has a comma without a value before or after it; write lists without spaces, such as 1,15",
        ),
        (
            "0 1,,2 * * *",
            "\"1,,2\" has a comma without a value before or after it; write lists without spaces, such as 1,15",
        ),
        (
            "0 22-4 * * *",
            "the range \"22-4\" runs backwards; write 22-23,0-4",
        ),
        (
            "0 22-4/2 * * *",
            "the range \"22-4/2\" runs backwards; write 22-23/2,0-4/2",
        ),
        (
            "0 0 * * FRI-MON",
            "the range \"FRI-MON\" runs backwards; write 5-7,1",
        ),
        ("0 0 * * 6-0", "the range \"6-0\" runs backwards; write 6-7"),
        (
            "0 0 * NOV-FEB *",
            "the range \"NOV-FEB\" runs backwards; write 11-12,1-2",
        ),
        (
            "0 0 * * FRIDAI",
            "\"FRIDAI\" is not the name of a weekday; write MON to SUN",
        ),
        (
            "0 0 * JUNO *",
            "\"JUNO\" is not the name of a month; write JAN to DEC",
        ),
        (
            "0 MON * * *",
            "\"MON\" is not a number, and the field for the hour has no names",
        ),
        (
            "0 0 \u{661} * *",
            "it has a character that patterns do not; write digits, names, and * ? , - / # + L W",
        ),
        (
            "@reboot",
            "a name is one of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly; for other intervals write every",
        ),
        (
            "* * *",
            "it must have five fields, or six with seconds first, got 3",
        ),
    ] {
        let expected = format!("when.cron: {pattern:?} is not a valid pattern: {reason}");
        assert_eq!(error(cron(&[pattern], "UTC")), expected);
    }
    assert_eq!(
        error(cron(&["@daily", "0 0 30 2 *"], "UTC")),
        "when.cron: \"0 0 30 2 *\" never fires within ten years"
    );
    assert_eq!(
        error(cron(&["@daily"], "europe/berlin")),
        "time_zone: \"europe/berlin\" is spelled Europe/Berlin"
    );
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

/// Returns the times of a pattern from `from` until `to`, by looking at each minute with another library.
fn expected(pattern: &str, zone: Tz, from: i64, to: i64) -> Vec<Time> {
    let cron: Cron = pattern.parse().unwrap();
    let is_once_a_day = pattern
        .split(' ')
        .take(2)
        // Of 60 minutes, every ninetieth is the first.
        .all(|it| it == "*/90" || it.parse::<u8>().is_ok());
    let minutes = |from: i64, to: i64| (from..=to).filter(|second| second % 60 == 0);
    let shown = |second: i64| DateTime::from_timestamp(second, 0).unwrap().naive_utc();
    let mut times: Vec<i64> = if is_once_a_day {
        // The days of a zone may begin a day earlier or later than those of UTC.
        minutes(from - 48 * 3_600, to + 48 * 3_600)
            .filter(|second| cron.is_time_matching(&shown(*second).and_utc()).unwrap())
            .map(|second| instant(zone, shown(second)))
            .collect()
    } else {
        minutes(from, to)
            .filter(|second| {
                let local = zone.from_utc_datetime(&shown(*second));
                cron.is_time_matching(&local).unwrap()
            })
            .collect()
    };
    times.retain(|second| (from..=to).contains(second));
    times.dedup();
    times
        .into_iter()
        .map(|second| Time(second * SECOND))
        .collect()
}

/// Returns the instant of a local time: the first of two, and the end of a gap that has it.
fn instant(zone: Tz, local: NaiveDateTime) -> i64 {
    let mut minutes = (0..).map(|minutes| local + TimeDelta::minutes(minutes));
    let instant = minutes.find_map(|local| zone.from_local_datetime(&local).earliest());
    instant.unwrap().timestamp()
}

/// Returns whether both time zone databases say the same of some days: they are not of the same version.
fn agree(zone: Tz, other: &TimeZone, from: i64, to: i64) -> bool {
    (from..=to).step_by(900).all(|second| {
        let time = DateTime::from_timestamp(second, 0).unwrap();
        let offset = zone.offset_from_utc_datetime(&time.naive_utc()).fix();
        let other = other.to_offset(Timestamp::from_second(second).unwrap());
        offset.local_minus_utc() == other.seconds()
    })
}

const DAY_S: i64 = 24 * 3_600;

/// Returns the times of a pattern with one time of day from `from` until `to`, by looking at each day with another library.
fn expected_daily(time: NaiveTime, zone: Tz, from: i64, to: i64) -> Vec<Time> {
    let first = DateTime::from_timestamp(from, 0).unwrap().date_naive();
    let days = first.pred_opt().unwrap().iter_days();
    // The days of a zone may begin a day earlier or later than those of UTC.
    let times = days.take(usize::try_from((to - from) / DAY_S).unwrap() + 4);
    let mut seconds: Vec<i64> = times.map(|day| instant(zone, day.and_time(time))).collect();
    seconds.retain(|second| (from..=to).contains(second));
    seconds.dedup();
    seconds
        .into_iter()
        .map(|second| Time(second * SECOND))
        .collect()
}

/// Compares the times of a pattern around an instant with those expected from an instant to another, if both databases agree about
/// these days.
fn compare(
    pattern: &str,
    zone: Tz,
    middle: i64,
    days: i64,
    expected: impl FnOnce(i64, i64) -> Vec<Time>,
) -> Option<Result<(), String>> {
    let (from, to) = (middle - days * DAY_S, middle + days * DAY_S);
    let other = TimeZone::get(zone.name()).ok()?;
    if !agree(zone, &other, from - 2 * DAY_S, to + 2 * DAY_S) {
        return None;
    }
    let schedule = cron(&[pattern], zone.name());
    let coming = schedule.coming(Time(from * SECOND - 1));
    let ours: Vec<Time> = coming.take_while(|time| time.0 <= to * SECOND).collect();
    let expected = expected(from, to);
    let shown = |times: &[Time]| {
        let texts: Vec<_> = times.iter().map(|time| time.to_rfc3339()).collect();
        texts.join(" ")
    };
    Some(if ours == expected {
        Ok(())
    } else {
        let name = zone.name();
        Err(format!(
            "{pattern} in {name}: {}, not {}",
            shown(&ours),
            shown(&expected)
        ))
    })
}

#[test]
fn each_transition_of_each_zone_is_met() {
    let first = "2000-01-01T00:00:00Z".parse::<Timestamp>().unwrap();
    let last = "2040-01-01T00:00:00Z".parse::<Timestamp>().unwrap();
    let mut wrong: BTreeMap<&str, String> = BTreeMap::new();
    let mut transitions = 0;
    let (zones, each) = if std::env::var_os("HOST_LONG_TESTS").is_some() {
        (1, 1)
    } else {
        (24, 12)
    };
    for zone in chrono_tz::TZ_VARIANTS.into_iter().step_by(zones) {
        let other = TimeZone::get(zone.name()).unwrap();
        let all = other
            .following(first)
            .take_while(|it| it.timestamp() < last);
        for transition in all.step_by(each) {
            let instant = transition.timestamp();
            transitions += 1;
            let before = instant.to_zoned_datetime(other.clone());
            // Half an hour to either side of the transition, as the clock on the wall showed it before and after.
            for minutes in [-31_i64, -1, 0, 29] {
                let Ok(local) = before.datetime().checked_add(minutes.minutes()) else {
                    continue;
                };
                let pattern = format!("{} {} * * *", local.minute(), local.hour());
                let time = NaiveTime::from_hms_opt(
                    local.hour().unsigned_abs().into(),
                    local.minute().unsigned_abs().into(),
                    0,
                );
                let expected = |from, to| expected_daily(time.unwrap(), zone, from, to);
                let compared = compare(&pattern, zone, instant.as_second(), 2, expected);
                if let Some(Err(difference)) = compared {
                    wrong.insert(zone.name(), difference);
                }
            }
        }
    }
    assert!(transitions > 10_000 / zones / each, "{transitions}");
    let count = wrong.len();
    let some: Vec<_> = wrong.into_values().take(5).collect();
    assert!(some.is_empty(), "{count} zones differ: {some:#?}");
}

#[test]
fn a_gap_at_midnight_and_a_skipped_day_lose_no_firing() {
    for (pattern, zone, after, expected) in [
        // Clocks go forward from 23:00 or later to the next day.
        (
            "30 23 * * SAT",
            "America/Nuuk",
            "2025-03-25T00:00:00Z",
            "2025-03-30T01:00:00.000Z",
        ),
        (
            "15 23 27 3 *",
            "America/Scoresbysund",
            "2027-03-20T00:00:00Z",
            "2027-03-28T01:00:00.000Z",
        ),
        // Clocks go forward at midnight.
        (
            "15 0 * * *",
            "Asia/Beirut",
            "2022-03-26T12:00:00Z",
            "2022-03-26T22:00:00.000Z",
        ),
        (
            "30 0 * * FRI",
            "Africa/Cairo",
            "2024-04-25T12:00:00Z",
            "2024-04-25T22:00:00.000Z",
        ),
        (
            "0 0 1 10 *",
            "America/Asuncion",
            "2023-09-30T12:00:00Z",
            "2023-10-01T04:00:00.000Z",
        ),
        (
            "45 0 * * SUN",
            "America/Havana",
            "2024-03-09T12:00:00Z",
            "2024-03-10T05:00:00.000Z",
        ),
        // A day that did not exist.
        (
            "0 12 30 12 *",
            "Pacific/Apia",
            "2011-12-29T00:00:00Z",
            "2011-12-30T10:00:00.000Z",
        ),
        (
            "0 12 * * FRI",
            "Pacific/Apia",
            "2011-12-29T00:00:00Z",
            "2011-12-30T10:00:00.000Z",
        ),
    ] {
        let times = coming(&cron(&[pattern], zone), after, 1);
        assert_eq!(times, [expected], "{pattern} in {zone}");
    }
}

/// Patterns whose times are few, or in gaps, or nowhere.
const RARE: [&str; 12] = [
    "0 0 29 2 *",
    "0 0 29 2 +MON",
    "0 0 30 2 *",
    "0 0 31 2,4,6,9,11 *",
    "0 0 * * L",
    "0,30 2 * 3 SUNL",
    "0 2,3 * * SUN#5",
    "0 0 31 12 +SUN",
    "*/90 */25 31 */11 *",
    "0 0 LW 2 +FRI",
    "59 59 23 29W 2 *",
    "* * * 29 2 +SAT",
];

#[test]
fn a_question_about_any_pattern_in_any_zone_has_an_end() {
    let zones = if std::env::var_os("HOST_LONG_TESTS").is_some() {
        1
    } else {
        12
    };
    for zone in chrono_tz::TZ_VARIANTS.into_iter().step_by(zones) {
        for pattern in RARE {
            let schedule = cron(&[pattern], zone.name());
            for year in [1850, 1935, 2000, 2026, 2190] {
                let start = at(&format!("{year}-01-01T00:00:00Z"));
                let mut last = start;
                for time in schedule.coming(start).take(5) {
                    assert!(time > last && time.since_ms(last) <= 10 * 366 * 86_400_000);
                    last = time;
                }
            }
        }
    }
    // Those that fire once in decades are silent between the others.
    let patterns: Vec<&str> = RARE.into_iter().cycle().take(32).collect();
    let all = cron(&patterns, "America/Nuuk");
    assert_eq!(
        all.coming(at("2026-01-01T00:00:00Z")).take(1_000).count(),
        1_000
    );
    let leap = cron(&["0 0 29 2 *", "0 0 29 2 +MON"], "America/Nuuk");
    assert!(leap.coming(at("2026-01-01T00:00:00Z")).count() > 1_000);
}

#[test]
fn what_is_silent_for_ten_years_comes_back_beside_other_patterns() {
    // 29 February is a Monday in 2044 and 2072.
    let both = cron(&["0 0 1 1 *", "0 12 29 2 +MON"], "UTC");
    let noons: Vec<_> = both
        .coming(at("2026-01-01T00:00:00Z"))
        .take(60)
        .map(Time::to_rfc3339)
        .filter(|it| it.contains("T12"))
        .collect();
    assert_eq!(
        noons,
        ["2044-02-29T12:00:00.000Z", "2072-02-29T12:00:00.000Z"]
    );
}

fn fields() -> impl Strategy<Value = String> {
    let minute = prop::sample::select(vec![
        "0", "15", "30", "59", "*/20", "0,30", "*", "5-50/15", "*/90",
    ]);
    let hour = prop::sample::select(vec![
        "0", "1", "2", "23", "3", "*", "*/2", "0,2,23", "22-23", "0-3/2",
    ]);
    let day = prop::sample::select(vec![
        "*", "*", "1", "L", "31", "13", "15W", "LW", "*/2", "29", "?",
    ]);
    let month = prop::sample::select(vec!["*", "*", "*", "3", "OCT", "2,9-11", "jan"]);
    let weekday = prop::sample::select(vec![
        "*", "*", "?", "SUN", "sat", "MON-FRI", "FRI#2", "5L", "+FRI", "SAT-SUN", "7",
    ]);
    (minute, hour, day, month, weekday).prop_map(|(m, h, d, o, w)| format!("{m} {h} {d} {o} {w}"))
}

/// The most steps of one search: it looks at each month of ten years about once, and at a few stretches around each change of
/// clocks.
const STEPS_MAX: u64 = 400;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Beside a transition or anywhere, a pattern has the times that a look at each minute finds.
    #[test]
    fn a_pattern_has_the_times_that_each_minute_shows(
        pattern in fields(),
        zone in prop::sample::select(chrono_tz::TZ_VARIANTS.to_vec()),
        second in 946_684_800_i64..2_000_000_000,
        at_transition in any::<bool>(),
    ) {
        let other = TimeZone::get(zone.name()).unwrap();
        let next = other.following(Timestamp::from_second(second).unwrap()).next().filter(|_| at_transition).map(|it| it.timestamp().as_second());
        let middle = next.filter(|next| *next < 2_100_000_000).unwrap_or(second);
        let expected = |from, to| expected(&pattern, zone, from, to);
        if let Some(compared) = compare(&pattern, zone, middle - middle.rem_euclid(60), 3, expected) {
            prop_assert_eq!(compared, Ok(()));
        }
    }

    /// Each question to a calendar is one search, or as many as it has patterns or times.
    #[test]
    fn a_search_takes_few_steps_whatever_is_asked(
        patterns in prop::collection::vec(prop_oneof![fields(), prop::sample::select(RARE.to_vec()).prop_map(str::to_owned)], 1..=32),
        zone in prop::sample::select(chrono_tz::TZ_VARIANTS.to_vec()),
        second in -4_000_000_000_i64..8_000_000_000,
    ) {
        let when = When::Cron(patterns);
        let calendar = Calendar::new(&when, zone.name()).unwrap();
        let When::Cron(patterns) = when else { unreachable!() };
        let most = patterns.len() as u64 * STEPS_MAX;
        let start = Time(second * SECOND);
        let (steps, _) = count(|| calendar.silent_pattern(start));
        prop_assert!(steps <= most, "{} steps for the first times of {:?}", steps, patterns);
        let mut coming = calendar.coming(start);
        for _ in 0..20 {
            let (steps, next) = count(|| coming.next());
            prop_assert!(steps <= most, "{} steps after {:?} for {:?}", steps, next, patterns);
        }
    }

    #[test]
    fn an_interval_comes_at_its_multiples(ms in 1_000_i64..10_000_000, phase in 0_i64..1_000, after in -1_000_000_000_i64..4_000_000_000_000) {
        let when = When::Every { ms: ms.unsigned_abs(), phase_ms: phase.unsigned_abs() };
        let calendar = Calendar::new(&when, "UTC").unwrap();
        let next = calendar.after(Time(after)).unwrap();
        prop_assert!(next.0 > after && next.0 <= after + ms);
        prop_assert_eq!((next.0 - phase).rem_euclid(ms), 0);
    }
}
