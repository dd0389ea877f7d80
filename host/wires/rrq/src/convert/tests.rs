//! Translates outcomes to the wire and back.

use host_core::failure::{Category, FAILURE_KINDS, Failure, FailureKind};
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_wire_kit::stream::{Framing as _, Next};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{outcome, response};
use crate::frame::Frames;
use crate::messages;
use crate::read::{Verdict, for_orchestrator};
use crate::refusals::Ids;

fn ids() -> Ids {
    Ids {
        request: "r".to_owned(),
        job: "j".to_owned(),
    }
}

/// Writes an outcome and returns the payload of its frame.
fn written(outcome: &Outcome) -> Vec<u8> {
    let mut frames = Frames::default();
    messages::put(&response(&ids(), outcome), frames.room());
    let Next::Frame(frame) = frames.next() else {
        panic!("a whole frame is written");
    };
    assert_eq!(frames.pending_bytes(), 0);
    frame.to_vec()
}

fn payload(outcome: &Outcome) -> Value {
    let mut message: Value = serde_json::from_slice(&written(outcome)).unwrap();
    message["payload"].take()
}

/// Writes an outcome and reads it as our orchestrator does.
fn reread(outcome: &Outcome) -> Outcome {
    let Ok(response) = for_orchestrator(Ok(&written(outcome))) else {
        panic!("no response");
    };
    super::outcome(response.verdict)
}

#[test]
fn every_kind_of_failure_has_its_words() {
    let expected = [
        ("error", json!(null)),
        ("error", json!("trap")),
        ("error", json!("fuel_exhausted")),
        ("timeout", json!("timeout")),
        ("error", json!("out_of_memory")),
        ("error", json!("result_too_large")),
        ("error", json!("invalid_params")),
        ("error", json!("handler_not_found")),
        ("error", json!("grant_missing")),
        ("error", json!("cancelled")),
        ("error", json!("cancel_timeout")),
        ("error", json!("lease_lost")),
        ("error", json!("cell_lost")),
        ("error", json!("poison")),
        ("error", json!("prerequisite_failed")),
    ];
    for (kind, (status, error_type)) in FAILURE_KINDS.into_iter().zip(expected) {
        let payload = payload(&Outcome::Failed(Failure::new(kind, "why")));
        assert_eq!(payload["status"], status, "{kind:?}");
        assert_eq!(payload["error"]["type"], error_type, "{kind:?}");
        let message = if kind == FailureKind::Cancelled {
            "Job cancelled"
        } else {
            "why"
        };
        assert_eq!(payload["error"]["message"], message, "{kind:?}");
    }
}

#[test]
fn a_handlers_error_passes_whole() {
    let failure = Failure {
        user_kind: Some("my_type".to_owned()),
        code: Some("E42".to_owned()),
        details: Some(JsonText(r#"{"a":[1,2]}"#.to_owned())),
        ..Failure::new(FailureKind::UserError, "custom")
    };
    let outcome = Outcome::Failed(failure.clone());
    assert_eq!(
        payload(&outcome)["error"],
        json!({"message": "custom", "type": "my_type", "code": "E42", "details": {"a": [1, 2]}})
    );
    let expected = Failure {
        retryable: Some(true),
        ..failure
    };
    assert_eq!(reread(&outcome), Outcome::Failed(expected));
}

#[test]
fn what_runners_say_is_retried_as_the_wire_has_it() {
    let failed = |verdict| match outcome(verdict) {
        Outcome::Failed(failure) => failure,
        other => panic!("{other:?}"),
    };
    assert!(failed(Verdict::Error(None)).is_retryable());
    assert_eq!(failed(Verdict::Error(None)).message, "Job failed");
    let timeout = failed(Verdict::Timeout(None));
    assert_eq!(timeout.kind, FailureKind::TimedOut);
    assert!(!timeout.is_retryable());
    assert_eq!(timeout.category(), Category::Timeout);
    let gone = reread(&Outcome::Failed(Failure::new(
        FailureKind::HandlerNotFound,
        "no",
    )));
    assert!(matches!(gone, Outcome::Failed(failure) if !failure.is_retryable()));
}

#[test]
fn delays_are_bounded() {
    let cases = [
        (None, None),
        (Some(0.2), Some(200)),
        (Some(-5.0), Some(0)),
        (Some(f64::NAN), Some(0)),
        (Some(1e308), Some(365 * 24 * 3_600_000)),
    ];
    for (after_seconds, expected) in cases {
        let verdict = Verdict::Retry {
            error: None,
            after_seconds,
        };
        let expected = Outcome::Retry {
            reason: "Job requested retry".to_owned(),
            after_ms: expected,
        };
        assert_eq!(outcome(verdict), expected);
    }
}

proptest! {
    #[test]
    fn what_succeeds_or_is_tried_again_comes_back(
        number in any::<i64>(),
        text in ".{0,40}",
        after_ms in prop::option::of(0_u64..1_000_000_000),
    ) {
        let result = Some(JsonText(json!({"n": number, "t": text}).to_string()));
        let completed = Outcome::Completed { result };
        prop_assert_eq!(reread(&completed), completed);
        let retry = Outcome::Retry { reason: text, after_ms };
        prop_assert_eq!(reread(&retry), retry);
    }
}
