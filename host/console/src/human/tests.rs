//! Durations, sizes, counts and ages, read and written.

use host_core::time::Time;

use super::{age, bytes, count, instant, parse_duration, parse_time, took, took_us, whole};

#[test]
fn durations_are_read() {
    let ms = |text| parse_duration(text).map(|seconds| seconds.ms);
    assert_eq!(ms("30s"), Ok(30_000));
    assert_eq!(ms("1h30m"), Ok(5_400_000));
    assert_eq!(ms("1h 30m"), Ok(5_400_000));
    assert_eq!(ms("250ms"), Ok(250));
    assert_eq!(ms("365d"), Ok(365 * 86_400_000));
    assert_eq!(ms("0s"), Ok(0));
}

#[test]
fn whole_numbers_have_a_range() {
    let priority = whole::<u8>(0, 9);
    assert_eq!(priority("9"), Ok(9));
    for text in ["", "10", "-1", "1.5", "x", "99999999999999999999999"] {
        let expected = "expected a whole number, 0–9";
        assert_eq!(priority(text), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn other_texts_are_no_durations() {
    for text in [
        "",
        " ",
        "30",
        "s",
        "1.5s",
        "-3s",
        "3 fortnights",
        "1h-5m",
        "3S",
    ] {
        assert!(parse_duration(text).is_err(), "{text:?}");
    }
    for text in ["366d", "18446744073709551615d", "99999999999999999999s"] {
        assert!(parse_duration(text).is_err(), "{text:?}");
    }
}

#[test]
fn times_need_a_zone() {
    assert_eq!(
        parse_time("2026-05-17T18:30:00+02:00").as_deref(),
        Ok("2026-05-17T16:30:00.000Z")
    );
    for text in ["", "tomorrow", "2026-05-17", "2026-05-17T18:30:00"] {
        assert!(parse_time(text).is_err(), "{text:?}");
    }
}

#[test]
fn what_things_took() {
    let shown: Vec<_> = [
        0, 999, 1_250, 59_999, 60_000, 3_599_999, 3_600_000, 90_000_000,
    ]
    .map(took)
    .into();
    assert_eq!(
        shown,
        [
            "0 ms", "999 ms", "1.2 s", "59.9 s", "1m00s", "59m59s", "1h00m", "1d01h"
        ]
    );
}

#[test]
fn short_times_have_tenths_of_a_millisecond() {
    let shown = [0, 99, 250, 9_999, 10_000, 1_250_000].map(took_us);
    assert_eq!(
        shown,
        ["0.0 ms", "0.0 ms", "0.2 ms", "9.9 ms", "10 ms", "1.2 s"]
    );
}

#[test]
fn ages_use_one_unit() {
    let now = Time(1_000_000_000);
    let shown: Vec<_> = [0, 59_999, 60_000, 7_200_000, 200_000_000]
        .map(|ms| age(now, Time(now.0 - ms)))
        .into();
    assert_eq!(shown, ["0s", "59s", "1m", "2h", "2d"]);
    assert_eq!(age(now, now.plus_ms(90_000)), "in 1m");
}

#[test]
fn sizes_and_counts() {
    let shown: Vec<_> = [0, 1023, 1024, 1_153_434, 64 << 20, u64::MAX]
        .map(bytes)
        .into();
    assert_eq!(
        shown,
        [
            "0 B",
            "1023 B",
            "1.0 KiB",
            "1.1 MiB",
            "64.0 MiB",
            "16383.9 PiB"
        ]
    );
    let shown: Vec<_> = [0, 999, 1_000, 25_277, 1_234_567].map(count).into();
    assert_eq!(shown, ["0", "999", "1,000", "25,277", "1,234,567"]);
}

#[test]
fn an_instant_that_is_none_does_nothing_to_a_terminal() {
    let now = Some(Time(1_779_042_600_000));
    assert_eq!(
        instant(now, "2026-05-17T18:31:00.000Z"),
        "2026-05-17T18:31:00.000Z (in 1m)"
    );
    for now in [now, None] {
        assert_eq!(instant(now, "\u{1b}[31mx\u{7}"), "x\\u{7}");
    }
}
