//! Limits against a naive model: random histories of one key, with all jobs that wait, are available or have started on lists.

use std::collections::VecDeque;

use host_core::access::Scope;
use host_core::job::Payload;
use host_core::json::JsonText;
use host_core::time::Time;
use proptest::prelude::*;

use super::{KeyPart, KeyUse, Limit, LimitError, LimitRefusal, Rate, WhenFull};
use crate::schedule::Source;

fn limit(concurrency: Option<u32>, rate: Option<(u32, u32, u32)>) -> Limit {
    Limit {
        name: "by-customer".parse().unwrap(),
        matches: Scope::ALL,
        key: Vec::new(),
        concurrency,
        rate: rate.map(|(count, per_seconds, burst)| Rate {
            count,
            per_seconds,
            burst,
            units: None,
        }),
        when_full: WhenFull::Wait,
        source: Source::Api,
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Has the units of the job.
    Enqueue(u32),
    Claim,
    GiveUp,
    End,
    Wait(u16),
    WaitUntilWoken,
    Hold(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u32..4).prop_map(Step::Enqueue),
        4 => Just(Step::Claim),
        1 => Just(Step::GiveUp),
        3 => Just(Step::End),
        2 => (0_u16..3_000).prop_map(Step::Wait),
        2 => Just(Step::WaitUntilWoken),
        1 => (0_u16..3_000).prop_map(Step::Hold),
    ]
}

/// The jobs of a key, each as its units.
#[derive(Default)]
struct Jobs {
    waiting: VecDeque<u32>,
    available: VecDeque<u32>,
    running: VecDeque<u32>,
    starts: Vec<(Time, u32)>,
}

/// Lets as many waiting jobs pass as there is room for, in their order.
fn serve(limit: &Limit, used: &mut KeyUse, jobs: &mut Jobs, now: Time) {
    while let Some(units) = jobs.waiting.front().copied() {
        if !limit.has_room(used, used.next_units, now) {
            break;
        }
        if !limit.has_room(used, units, now) {
            used.next_units = units;
            break;
        }
        jobs.waiting.pop_front();
        jobs.available.push_back(units);
        used.stop_waiting();
        used.reserve(units);
    }
}

/// Checks that the units of any two starts, and of those between them, fit into the bucket.
fn check_starts(starts: &[(Time, u32)], rate: &Rate) -> Result<(), TestCaseError> {
    for (n, (first, _)) in starts.iter().enumerate() {
        let mut taken = 0;
        for (last, units) in &starts[n..] {
            taken += u64::from(if rate.units.is_some() { *units } else { 1 });
            let tokens = u64::from(rate.count) * last.since_ms(*first)
                / (u64::from(rate.per_seconds) * 1_000);
            let most = u64::from(rate.burst) + tokens;
            prop_assert!(taken <= most, "from {n} to {last:?} of {starts:?}");
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn no_history_exceeds_a_limit_or_forgets_a_job(
        concurrency in proptest::option::of(1_u32..4),
        rate in proptest::option::of((1_u32..5, 1_u32..4, 3_u32..6)),
        has_units: bool,
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let mut limit = limit(concurrency, rate);
        if let Some(rate) = &mut limit.rate {
            rate.units = has_units.then(|| KeyPart::try_from("/n".to_owned()).unwrap());
        }
        let (mut used, mut now, mut jobs) = (KeyUse::default(), Time(1_000_000), Jobs::default());
        let mut held_until = now;
        for step in steps {
            match step {
                Step::Enqueue(units) if used.waiting == 0 && limit.has_room(&used, units, now) => {
                    used.reserve(units);
                    jobs.available.push_back(units);
                }
                Step::Enqueue(units) => {
                    used.wait(units);
                    jobs.waiting.push_back(units);
                }
                // A claim makes it wait.
                Step::Claim if used.is_held(now) => if let Some(units) = jobs.available.pop_front() {
                    used.release(units, false);
                    used.wait(units);
                    jobs.waiting.push_front(units);
                }
                Step::Claim => if let Some(units) = jobs.available.pop_front() {
                    prop_assert!(now >= held_until);
                    used.start(units, &limit, now);
                    jobs.starts.push((now, units));
                    jobs.running.push_back(units);
                }
                Step::GiveUp => if let Some(units) = jobs.available.pop_back() {
                    used.release(units, false);
                }
                Step::End => if let Some(units) = jobs.running.pop_front() {
                    used.release(units, true);
                }
                Step::Hold(ms) => {
                    used.hold(now.plus_ms(ms.into()));
                    held_until = held_until.max(now.plus_ms(ms.into()));
                }
                Step::Wait(ms) => now = now.plus_ms(ms.into()),
                Step::WaitUntilWoken => {
                    let Some(at) = limit.wake_at(&used, now).filter(|_| used.waiting > 0) else {
                        continue;
                    };
                    prop_assert!(at > now, "what could be admitted was");
                    prop_assert!(!limit.has_room(&used, jobs.waiting[0], Time(at.0 - 1)));
                    prop_assert!(limit.has_room(&used, used.next_units, at));
                    now = at;
                }
            }
            serve(&limit, &mut used, &mut jobs, now);
            if let Some(most) = concurrency {
                prop_assert!(used.reserved + used.running <= most);
            }
            if used.waiting > 0 && used.reserved == 0 && used.running == 0 {
                prop_assert!(limit.wake_at(&used, now).is_some(), "nothing else would wake it");
            }
            prop_assert_eq!(used.reserved_units, jobs.available.iter().copied().map(u64::from).sum::<u64>());
        }
        if let Some(rate) = &limit.rate {
            check_starts(&jobs.starts, rate)?;
        }
    }
}

#[test]
fn an_unused_key_is_forgotten_once_its_bucket_is_full() {
    let limit = limit(None, Some((2, 1, 2)));
    let (mut used, now) = (KeyUse::default(), Time(1_000_000));
    used.reserve(1);
    used.start(1, &limit, now);
    assert_eq!(limit.wake_at(&used, now), None);
    used.release(1, true);
    assert!(!used.is_idle(now));
    let at = limit.wake_at(&used, now).unwrap();
    assert_eq!(at, now.plus_ms(500));
    assert!(used.is_idle(at));
}

#[test]
fn numbers_have_ranges() {
    let number = |field, most, got| Err(LimitError::Number { field, most, got });
    for (limit, expected) in [
        (limit(Some(1), None), Ok(())),
        (limit(None, Some((1, 60, 5))), Ok(())),
        (limit(None, None), Err(LimitError::Unlimited)),
        (limit(Some(0), None), number("concurrency", 1_000_000, 0)),
        (
            limit(None, Some((0, 1, 1))),
            number("rate.count", 1_000_000, 0),
        ),
        (
            limit(None, Some((1, 3_000_000, 1))),
            number("rate.per_seconds", 2_678_400, 3_000_000),
        ),
        (
            limit(None, Some((1, 1, 2_000_000))),
            number("rate.burst", 1_000_000, 2_000_000),
        ),
        (
            limit(None, Some((1, 86_400, 1_000_000))),
            Err(LimitError::TooSlow {
                count: 1,
                per_seconds: 86_400,
                burst: 1_000_000,
            }),
        ),
    ] {
        assert_eq!(limit.check(), expected);
    }
}

fn payload() -> Payload {
    Payload {
        params: JsonText(
            r#"{"customer":{"id":7,"name":"a\"b\u0000"},"list":[1],"no":null}"#.to_owned(),
        ),
        wire: "http".to_owned(),
        external_id: None,
        trace_context: Vec::new(),
        attributes: vec![("region".to_owned(), "eu".to_owned())],
        origin: None,
        latest_start: None,
    }
}

#[test]
fn a_key_is_made_of_params_and_attributes() {
    let payload = payload();
    for (parts, expected) in [
        (&[][..], ""),
        (&["/customer/id"], "7"),
        (&["/customer/name"], "a\"b\u{fffd}"),
        (&["attributes:region"], "eu"),
        (&["/list"], ""),
        (&["/nothing"], ""),
        (
            &["attributes:region", "/customer/name"],
            "[\"eu\",\"a\\\"b\u{fffd}\"]",
        ),
    ] {
        let key = parts
            .iter()
            .map(|part| (*part).to_owned().try_into().unwrap());
        let limit = Limit {
            key: key.collect(),
            ..limit(Some(1), None)
        };
        assert_eq!(limit.key_of(&payload), expected);
    }
    for wrong in ["customer", "attributes:", ""] {
        assert!(
            super::KeyPart::try_from(wrong.to_owned()).is_err(),
            "{wrong}"
        );
    }
}

#[test]
fn units_are_a_whole_number_within_the_burst_and_one_if_absent() {
    for (units, burst, expected) in [
        (None, 7, Ok(1)),
        (Some("/customer/id"), 7, Ok(7)),
        (Some("/customer/id"), 6, Err(6)),
        (Some("/list/0"), 7, Ok(1)),
        (Some("/nothing"), 7, Ok(1)),
        (Some("/no"), 7, Ok(1)),
        (Some("/list"), 7, Err(7)),
        (Some("/customer/name"), 7, Err(7)),
        (Some("attributes:nothing"), 7, Ok(1)),
        (Some("attributes:region"), 7, Err(7)),
    ] {
        let mut limit = limit(None, Some((1, 1, burst)));
        if let Some(rate) = &mut limit.rate {
            rate.units = units.map(|it| KeyPart::try_from(it.to_owned()).unwrap());
        }
        let expected = expected.map_err(|burst| LimitRefusal::Units {
            limit: "by-customer".parse().unwrap(),
            burst,
        });
        assert_eq!(limit.units_of(&payload()), expected, "{units:?}");
    }
}

#[test]
fn a_job_that_has_more_units_than_a_lowered_bucket_takes_all_of_it() {
    let mut limit = limit(None, Some((1, 1, 2)));
    if let Some(rate) = &mut limit.rate {
        rate.units = Some(KeyPart::try_from("/n".to_owned()).unwrap());
    }
    let (mut used, now) = (KeyUse::default(), Time(1_000_000));
    assert!(limit.has_room(&used, 5, now));
    used.reserve(5);
    assert!(!limit.has_room(&used, 0, now));
    used.start(5, &limit, now);
    used.wait(5);
    assert_eq!(limit.wake_at(&used, now), Some(now.plus_ms(2_000)));
}

#[test]
fn a_held_key_has_no_room_and_is_kept_until_the_hold_is_over() {
    let limit = limit(Some(2), None);
    let (mut used, now) = (KeyUse::default(), Time(1_000_000));
    used.hold(now.plus_ms(100));
    used.hold(now.plus_ms(50));
    assert!(!limit.has_room(&used, 1, now.plus_ms(99)));
    assert!(limit.has_room(&used, 1, now.plus_ms(100)));
    assert_eq!(limit.wake_at(&used, now), Some(now.plus_ms(100)));
    assert!(!used.is_idle(now.plus_ms(99)) && used.is_idle(now.plus_ms(100)));
    used.wait(1);
    assert_eq!(limit.wake_at(&used, now), Some(now.plus_ms(100)));
}
