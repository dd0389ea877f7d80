//! Warnings about schedules.

use host_core::json::JsonText;
use host_core::time::Time;
use host_engine::schedule::{
    CatchUp, Fate, Firing, Overlap, Schedule, Source, WINDOW_MS_DEFAULT, When,
};
use host_testing::Log;

use super::{Warnings, warning};

const MINUTE: u64 = 60_000;

pub(super) fn schedule(overlap: Overlap, spread_ms: u64) -> Schedule {
    Schedule {
        name: "nightly".parse().unwrap(),
        when: When::Every {
            ms: MINUTE,
            phase_ms: 0,
        },
        time_zone: "UTC".to_owned(),
        job: JsonText(r#"{"handler":"report"}"#.to_owned()),
        overlap,
        catch_up: CatchUp::default(),
        window_ms: WINDOW_MS_DEFAULT,
        spread_ms,
        from: None,
        until: None,
        is_paused: false,
        note: None,
        source: Source::Api,
        origin: None,
    }
}

fn warned(schedule: &Schedule, late_ms: u64, fate: Fate) -> Option<String> {
    let nominal = Time(0);
    let at = nominal.plus_ms(late_ms);
    warning(schedule, &Firing { nominal, at, fate })
}

fn fired() -> Fate {
    Fate::Fired("01990f3c-1a2b-7000-8000-000000000001".parse().unwrap())
}

#[test]
fn a_schedule_that_keeps_no_pace_is_warned_about() {
    let skip = schedule(Overlap::Skip, 0);
    assert_eq!(warned(&skip, 10_000, fired()), None);
    let late = warned(&skip, 10_001, fired());
    assert_eq!(late.as_deref(), Some("a schedule fired 10001 ms late"));
    assert!(warned(&skip, 0, Fate::Skipped).is_some());
    assert!(
        warned(&skip, 0, Fate::Missed(3))
            .unwrap()
            .contains("3 firings")
    );
    assert!(warned(&skip, 0, Fate::Failed("no such queue".to_owned())).is_some());
    for (overlap, is_worth_it) in [
        (Overlap::QueueOne, true),
        (Overlap::QueueAll, true),
        (Overlap::Cancel, false),
    ] {
        let held = warned(&schedule(overlap, 0), 0, Fate::Held);
        assert_eq!(held.is_some(), is_worth_it, "{overlap:?}");
    }
}

#[test]
fn a_schedule_with_a_spread_is_late_only_after_its_own_time() {
    let spread = schedule(Overlap::Skip, 60 * MINUTE);
    let own_ms = spread.offset_ms();
    assert!(own_ms > 10_000, "{own_ms}");
    assert_eq!(warned(&spread, own_ms, fired()), None);
    assert!(warned(&spread, own_ms + 10_001, fired()).is_some());
}

#[test]
fn a_schedule_is_warned_about_once_a_minute() {
    let (log, _guard) = Log::of_this_thread();
    let mut warnings = Warnings::default();
    let nightly = schedule(Overlap::Skip, 0);
    let other = Schedule {
        name: "other".parse().unwrap(),
        ..nightly.clone()
    };
    let mut skipped = |schedule: &Schedule, ms: u64| {
        let firing = Firing {
            nominal: Time(0),
            at: Time(0),
            fate: Fate::Skipped,
        };
        warnings.note(schedule, &firing, Time(0).plus_ms(ms));
        let lines = log.lines_with("a schedule skipped a firing");
        lines.len()
    };
    assert_eq!(skipped(&nightly, 0), 1);
    assert_eq!(skipped(&nightly, 1_000), 1);
    assert_eq!(skipped(&other, 1_000), 2, "another has a minute of its own");
    assert_eq!(skipped(&nightly, MINUTE - 1), 2);
    assert_eq!(skipped(&nightly, MINUTE), 3);
}
