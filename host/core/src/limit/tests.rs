//! Limits against a naive model: random histories of one key, with all starts on a list.

use proptest::prelude::*;

use super::{KeyUse, Limit, LimitError, Rate, WhenFull};
use crate::access::Scope;
use crate::job::Payload;
use crate::json::JsonText;
use crate::schedule::Source;
use crate::time::Time;

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
        }),
        when_full: WhenFull::Wait,
        source: Source::Api,
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Enqueue,
    Claim,
    GiveUp,
    End,
    Wait(u16),
    WaitUntilWoken,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Enqueue),
        4 => Just(Step::Claim),
        1 => Just(Step::GiveUp),
        3 => Just(Step::End),
        2 => (0_u16..3_000).prop_map(Step::Wait),
        2 => Just(Step::WaitUntilWoken),
    ]
}

/// Lets as many waiting jobs pass as there is room for.
fn serve(limit: &Limit, used: &mut KeyUse, now: Time) {
    while used.waiting > 0 && limit.has_room(used, now) {
        used.waiting -= 1;
        used.reserve();
    }
}

/// Checks that any two starts, and those between them, fit into the bucket.
fn check_starts(starts: &[Time], rate: Rate) -> Result<(), TestCaseError> {
    for (n, first) in starts.iter().enumerate() {
        for (m, last) in starts.iter().enumerate().skip(n) {
            let tokens = u64::from(rate.count) * last.since_ms(*first)
                / (u64::from(rate.per_seconds) * 1_000);
            let most = u64::from(rate.burst) + tokens;
            prop_assert!((m - n + 1) as u64 <= most, "{n}–{m} of {starts:?}");
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn no_history_exceeds_a_limit_or_forgets_a_job(
        concurrency in proptest::option::of(1_u32..4),
        rate in proptest::option::of((1_u32..5, 1_u32..4, 1_u32..6)),
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let limit = limit(concurrency, rate);
        let (mut used, mut now, mut starts) = (KeyUse::default(), Time(1_000_000), Vec::new());
        for step in steps {
            match step {
                Step::Enqueue if used.waiting == 0 && limit.has_room(&used, now) => used.reserve(),
                Step::Enqueue => used.waiting += 1,
                Step::Claim if used.reserved > 0 => {
                    used.start(limit.rate.as_ref(), now);
                    starts.push(now);
                }
                Step::GiveUp if used.reserved > 0 => used.release(false),
                Step::End if used.running > 0 => used.release(true),
                Step::Wait(ms) => now = now.plus_ms(ms.into()),
                Step::WaitUntilWoken => {
                    let Some(at) = limit.wake_at(&used, now).filter(|_| used.waiting > 0) else {
                        continue;
                    };
                    prop_assert!(at > now, "what could be admitted was");
                    prop_assert!(!limit.has_room(&used, Time(at.0 - 1)));
                    prop_assert!(limit.has_room(&used, at));
                    now = at;
                }
                _ => {}
            }
            serve(&limit, &mut used, now);
            if let Some(most) = concurrency {
                prop_assert!(used.reserved + used.running <= most);
            }
            if used.waiting > 0 && used.reserved == 0 && used.running == 0 {
                prop_assert!(limit.wake_at(&used, now).is_some(), "nothing else would wake it");
            }
            prop_assert_eq!(limit.room(&used, now) > 0, limit.has_room(&used, now));
        }
        if let Some(rate) = limit.rate {
            check_starts(&starts, rate)?;
        }
    }
}

#[test]
fn an_unused_key_is_forgotten_once_its_bucket_is_full() {
    let limit = limit(None, Some((2, 1, 2)));
    let (mut used, now) = (KeyUse::default(), Time(1_000_000));
    used.reserve();
    used.start(limit.rate.as_ref(), now);
    assert_eq!(limit.wake_at(&used, now), None);
    used.release(true);
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

#[test]
fn a_key_is_made_of_params_and_attributes() {
    let payload = Payload {
        params: JsonText(r#"{"customer":{"id":7,"name":"a\"b\u0000"},"list":[1]}"#.to_owned()),
        wire: "http".to_owned(),
        external_id: None,
        trace_context: Vec::new(),
        attributes: vec![("region".to_owned(), "eu".to_owned())],
        origin: None,
    };
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
