//! What becomes of nominal times, as tables and over random histories.

use std::collections::{BTreeMap, BTreeSet};

use host_core::id::JobId;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::schedule::{Fate, Firing, HELD_MAX, NOMINALS_MAX, Plan, Progress};

pub(super) fn ids(count: usize) -> Vec<JobId> {
    (1..=count)
        .map(|n| JobId(Uuid::from_u128(n as u128)))
        .collect()
}

/// Shows what becomes of nominal times, in seconds.
fn shown(plan: &Plan) -> Vec<String> {
    let fate = |firing: &Firing| {
        let nominal = firing.nominal.0 / SECOND;
        match &firing.fate {
            Fate::Fired(_) => format!("{nominal} fired"),
            Fate::Held => format!("{nominal} held"),
            Fate::Skipped => format!("{nominal} skipped"),
            Fate::Missed(times) => format!("{nominal} missed {times}"),
            Fate::Failed(why) => format!("{nominal} failed: {why}"),
        }
    };
    plan.firings.iter().map(fate).collect()
}

#[test]
fn what_no_host_saw_is_caught_up_with() {
    let minute = |catch_up, window_ms| {
        let schedule = Schedule {
            catch_up,
            window_ms,
            ..every(MINUTE)
        };
        kept(schedule, 0)
    };
    let hour = WINDOW_MS_DEFAULT;
    for (catch_up, window_ms, now, expected) in [
        (CatchUp::Last, hour, 59, vec![]),
        (CatchUp::Last, hour, 60, vec!["60 fired"]),
        (CatchUp::Last, hour, 200, vec!["120 missed 2", "180 fired"]),
        (CatchUp::Last, 10_000, 200, vec!["180 missed 3"]),
        (CatchUp::None, hour, 62, vec!["60 fired"]),
        (CatchUp::None, hour, 71, vec!["60 missed 1"]),
        (CatchUp::None, hour, 181, vec!["120 missed 2", "180 fired"]),
        (
            CatchUp::All,
            hour,
            200,
            vec!["60 fired", "120 fired", "180 fired"],
        ),
        (
            CatchUp::All,
            100_000,
            200,
            vec!["60 missed 1", "120 fired", "180 fired"],
        ),
    ] {
        let mut before = minute(catch_up, window_ms);
        before.schedule.overlap = Overlap::Allow;
        let plan = before.plan(Time(now * SECOND), &ids(9), None, |_| true);
        assert_eq!(shown(&plan), expected, "{catch_up:?} at {now}");
        let started: Vec<Time> = plan.starts.iter().map(|start| start.nominal).collect();
        let fired = plan
            .firings
            .iter()
            .filter(|it| matches!(it.fate, Fate::Fired(_)));
        assert_eq!(started, fired.map(|it| it.nominal).collect::<Vec<_>>());
        assert_eq!(plan.progress.recorded, plan.firings.len() as u64);
    }
}

#[test]
fn a_job_that_has_not_ended_meets_the_next_time() {
    for (overlap, expected, cancelled) in [
        (Overlap::Skip, vec!["120 held", "180 skipped"], false),
        (Overlap::QueueOne, vec!["120 held", "180 skipped"], false),
        (Overlap::QueueAll, vec!["120 held", "180 held"], false),
        (Overlap::Cancel, vec!["120 skipped", "180 held"], true),
        (Overlap::Allow, vec!["120 fired", "180 fired"], false),
    ] {
        let catch_up = CatchUp::All;
        let mut kept = kept(
            Schedule {
                overlap,
                catch_up,
                ..every(MINUTE)
            },
            0,
        );
        let first = kept.plan(Time(60 * SECOND), &ids(1), None, |_| true);
        let running = first.starts[0].id;
        kept.progress = first.progress;
        let plan = kept.plan(Time(180 * SECOND), &ids(9)[1..], None, |_| true);
        assert_eq!(shown(&plan), expected, "{overlap:?}");
        let cancels = if cancelled { vec![running] } else { vec![] };
        assert_eq!(plan.cancels, cancels, "{overlap:?}");
        let holds = overlap != Overlap::Allow;
        kept.progress = plan.progress;
        assert_eq!(kept.holds(), holds, "{overlap:?}");
        // Once it has ended, what waits is enqueued, one after the other.
        let plan = kept.plan(Time(185 * SECOND), &ids(9)[4..], None, |_| false);
        let next = if overlap == Overlap::Cancel {
            "180 fired"
        } else {
            "120 fired"
        };
        assert_eq!(
            shown(&plan),
            if holds { vec![next] } else { vec![] },
            "{overlap:?}"
        );
    }
}

#[test]
fn all_times_that_are_made_up_for_run_in_turn() {
    for overlap in [Overlap::Skip, Overlap::QueueOne, Overlap::QueueAll] {
        let catch_up = CatchUp::All;
        let mut kept = kept(
            Schedule {
                overlap,
                catch_up,
                ..every(MINUTE)
            },
            0,
        );
        // No host was there for ten minutes. Each job ends within two seconds.
        let mut started = Vec::new();
        for second in 0..20 {
            let now = Time(10 * MINUTE + 30 * SECOND + second * SECOND);
            let plan = kept.plan(now, &ids(9), None, |_| second % 2 == 1);
            assert!(plan.starts.len() <= 1, "{overlap:?}: {:?}", plan.starts);
            started.extend(plan.starts.iter().map(|start| start.nominal.0 / MINUTE));
            kept.progress = plan.progress;
        }
        assert_eq!(started, (1..=10).collect::<Vec<_>>(), "{overlap:?}");
        assert_eq!(kept.progress.counts.skipped, 0, "{overlap:?}");
    }
}

#[test]
fn a_schedule_whose_times_cannot_be_found_is_paused_and_says_why() {
    let schedule = cron(&[", * * * *"], "UTC");
    let progress = Progress {
        next: Some(Time(MINUTE)),
        ..Progress::default()
    };
    let kept = KeptSchedule { schedule, progress };
    assert!(kept.is_astray(Time(0)));
    let plan = kept.plan(Time(MINUTE), &ids(1), None, |_| false);
    assert!(plan.starts.is_empty() && plan.firings.is_empty());
    let paused = kept.with(plan.progress);
    let reason = paused.progress.refused.as_deref().unwrap();
    assert!(reason.contains("has a comma without a value"), "{reason}");
    assert_eq!(paused.fires_at(), None);
    assert!(!paused.is_astray(Time(0)));
    let again = KeptSchedule::set(every(MINUTE), Some(paused), Time(0));
    assert_eq!(again.progress.refused, None);
    assert_eq!(again.fires_at(), Some(Time(MINUTE)));
}

#[test]
fn a_refused_job_is_recorded_and_the_schedule_goes_on() {
    let kept = kept(every(MINUTE), 0);
    let plan = kept.plan(Time(60 * SECOND), &ids(1), Some("no such handler"), |_| {
        true
    });
    assert_eq!(shown(&plan), ["60 failed: no such handler"]);
    assert!(plan.starts.is_empty());
    assert_eq!(plan.progress.counts.failed, 1);
    assert_eq!(plan.progress.next, Some(Time(120 * SECOND)));
}

#[test]
fn a_spread_moves_firings_but_not_nominal_times() {
    let spread = Schedule {
        spread_ms: 30_000,
        ..every(MINUTE)
    };
    let offset = i64::try_from(spread.offset_ms()).unwrap();
    assert!(offset > 0 && offset < 30_000, "{offset}");
    assert_eq!(offset % SECOND, 0);
    let other = Schedule {
        name: "hourly".parse().unwrap(),
        ..spread.clone()
    };
    assert_ne!(other.offset_ms(), spread.offset_ms(), "names differ");
    let kept = kept(spread, 0);
    assert_eq!(kept.fires_at(), Some(Time(MINUTE + offset)));
    let plan = |now| kept.plan(Time(now), &ids(1), None, |_| true);
    assert!(plan(MINUTE + offset - 1).firings.is_empty());
    assert_eq!(shown(&plan(MINUTE + offset)), ["60 fired"]);
}

#[test]
fn a_job_that_is_enqueued_more_than_ten_seconds_after_its_time_is_late() {
    let kept = kept(every(MINUTE), 0);
    let counts = |now| {
        let counts = kept
            .plan(Time(now), &ids(1), None, |_| true)
            .progress
            .counts;
        (counts.fired, counts.late)
    };
    assert_eq!(counts(70 * SECOND), (1, 0));
    assert_eq!(counts(70 * SECOND + 1), (1, 1));
    let nominals = [Time(MINUTE)];
    let asked_for = kept.plan_at(&nominals, Time(HOUR), &ids(1), None, |_| true);
    assert_eq!(asked_for.progress.counts.late, 0, "it was not due earlier");
}

#[test]
fn a_change_of_times_begins_anew_and_others_go_on() {
    let before = kept(every(MINUTE), 0);
    let now = Time(90 * SECOND);
    let again = |schedule| KeptSchedule::set(schedule, Some(before.clone()), now);
    let noted = again(Schedule {
        note: Some("mail".to_owned()),
        ..every(MINUTE)
    });
    assert_eq!(
        noted.progress.next,
        Some(Time(60 * SECOND)),
        "it is still due"
    );
    let hourly = again(every(HOUR));
    assert_eq!(hourly.progress.next, Some(Time(HOUR)));
    assert!(hourly.progress.version > before.progress.version);
    let paused = again(Schedule {
        is_paused: true,
        ..every(MINUTE)
    });
    assert_eq!(paused.fires_at(), None);
    let resumed = KeptSchedule::set(every(MINUTE), Some(paused), now);
    assert_eq!(
        resumed.progress.next,
        Some(Time(120 * SECOND)),
        "a pause is not caught up with"
    );
}

#[test]
fn long_absences_are_handled_in_slices() {
    let mut kept = kept(every(SECOND), 0);
    let now = Time(2_500 * SECOND);
    let mut slices = Vec::new();
    while kept.fires_at() <= Some(now) {
        let plan = kept.plan(now, &ids(2), None, |_| false);
        slices.extend(shown(&plan));
        kept.progress = plan.progress;
    }
    let expected = [
        "1000 missed 1000",
        "2000 missed 1000",
        "2499 missed 499",
        "2500 fired",
    ];
    assert_eq!(slices, expected);
    assert_eq!(kept.progress.counts.missed, NOMINALS_MAX as u64 * 2 + 499);
}

fn overlaps() -> impl Strategy<Value = Overlap> {
    prop::sample::select(vec![
        Overlap::Skip,
        Overlap::QueueOne,
        Overlap::QueueAll,
        Overlap::Cancel,
        Overlap::Allow,
    ])
}

fn catch_ups() -> impl Strategy<Value = CatchUp> {
    prop::sample::select(vec![CatchUp::None, CatchUp::Last, CatchUp::All])
}

proptest! {
    /// Each nominal time has exactly one end, jobs come in the order of their times, and only those that may run at
    /// once do.
    #[test]
    fn each_nominal_time_ends_once(
        overlap in overlaps(),
        catch_up in catch_ups(),
        every_s in 1_i64..90,
        window_s in 0_u64..200,
        steps in prop::collection::vec((0_i64..120_000, any::<bool>(), 1_usize..4), 1..60),
    ) {
        let window_ms = window_s * 1_000;
        let mut kept = kept(Schedule { overlap, catch_up, window_ms, ..every(every_s * SECOND) }, 0);
        let (mut now, mut next_id) = (0_i64, 1_u128);
        let mut running: BTreeSet<JobId> = BTreeSet::new();
        let mut ended: BTreeMap<Time, u64> = BTreeMap::new();
        let mut started: Vec<Time> = Vec::new();
        for (later, ends, room) in steps {
            now += later;
            if ends {
                running.clear();
            }
            let ids: Vec<JobId> = (next_id..).take(room).map(|n| JobId(Uuid::from_u128(n))).collect();
            next_id += room as u128;
            let plan = kept.plan(Time(now), &ids, None, |id| running.contains(&id));
            for id in &plan.cancels {
                prop_assert!(running.remove(id));
            }
            for start in &plan.starts {
                running.insert(start.id);
                prop_assert!(start.previous < Some(start.nominal));
                prop_assert_eq!(start.previous, started.last().copied());
                started.push(start.nominal);
            }
            prop_assert!(overlap == Overlap::Allow || running.len() <= 1);
            for firing in &plan.firings {
                prop_assert!(firing.nominal.0 <= now);
                match firing.fate {
                    Fate::Held => {}
                    Fate::Missed(times) => {
                        for back in 0..times {
                            let nominal = firing.nominal.0 - i64::try_from(back).unwrap() * every_s * SECOND;
                            *ended.entry(Time(nominal)).or_default() += 1;
                        }
                    }
                    _ => *ended.entry(firing.nominal).or_default() += 1,
                }
            }
            prop_assert!(plan.progress.held.len() <= HELD_MAX);
            kept.progress = plan.progress;
        }
        for held in &kept.progress.held {
            *ended.entry(*held).or_default() += 1;
        }
        let next = kept.progress.next.unwrap();
        let expected: Vec<Time> = kept.schedule.coming(Time(0)).take_while(|time| *time < next).collect();
        prop_assert_eq!(ended.keys().copied().collect::<Vec<_>>(), expected);
        prop_assert!(ended.values().all(|times| *times == 1), "{:?}", ended);
        let counts = kept.progress.counts;
        let all = counts.fired + counts.skipped + counts.missed + kept.progress.held.len() as u64;
        prop_assert_eq!(all, ended.len() as u64);
    }
}
