//! Outcomes, converted to the wire and back.

use host_core::failure::{FAILURE_KINDS, Failure, FailureKind};
use host_core::json::JsonText;
use host_core::outcome::{Meter, Outcome};

use super::*;

const METER: Meter = Meter {
    fuel: 9,
    cpu_us: 1_001,
    peak_memory_bytes: 65_536,
};

#[test]
fn every_kind_of_failure_has_its_category() {
    for kind in FAILURE_KINDS {
        let message = report(&Outcome::Failed(Failure::new(kind, "words")), &METER);
        if kind == FailureKind::Cancelled {
            assert_eq!(message.outcome, CANCELLED);
            continue;
        }
        assert_eq!(message.outcome, FAILED);
        let error = message.error.unwrap();
        let expected = match kind {
            FailureKind::UserError | FailureKind::Trapped | FailureKind::ResultTooLarge => {
                "USER_CODE"
            }
            FailureKind::FuelExhausted | FailureKind::TimedOut => "TIMEOUT",
            FailureKind::MemoryLimit
            | FailureKind::LeaseLost
            | FailureKind::CellLost
            | FailureKind::Poison => "INFRASTRUCTURE",
            FailureKind::InvalidParams => "DATA_QUALITY",
            FailureKind::HandlerNotFound
            | FailureKind::GrantMissing
            | FailureKind::PrerequisiteFailed => "CONFIGURATION",
            FailureKind::Cancelled | FailureKind::CancelTimeout => "CANCELLED",
        };
        assert_eq!(error.category, expected, "{kind:?}");
        assert_eq!(error.retryable, Some(kind.is_retryable()), "{kind:?}");
    }
}

#[test]
fn reports_are_read_back_unchanged() {
    let json = |text: &str| Some(JsonText(text.to_owned()));
    let mut refused = Failure::new(FailureKind::UserError, "no");
    refused.retryable = Some(false);
    refused.stack = Some("at x".to_owned());
    for outcome in [
        Outcome::Completed {
            result: json("[1.50]"),
        },
        Outcome::Completed { result: None },
        Outcome::Failed(refused),
        Outcome::Failed(Failure::new(FailureKind::TimedOut, "late")),
        Outcome::Cancelled {
            partial: json(r#"{"done":5}"#),
        },
        Outcome::Retry {
            reason: "later".to_owned(),
            after_ms: Some(5),
        },
    ] {
        let written = serde_json::to_string(&report(&outcome, &METER)).unwrap();
        let read = ended(&serde_json::from_str(&written).unwrap()).unwrap();
        assert_eq!((read.meter.fuel, read.meter.cpu_us), (9, 2_000));
        match (&outcome, read.outcome) {
            (Outcome::Completed { result }, Outcome::Completed { result: read }) => {
                let output = result.as_ref().map_or("null", JsonText::as_str);
                let start = format!(r#"{{"output":{output},"metrics":{{"#);
                assert!(read.unwrap().as_str().starts_with(&start));
            }
            (Outcome::Failed(failure), Outcome::Failed(read)) => {
                assert_eq!(read.message, failure.message);
                assert_eq!(read.is_retryable(), failure.is_retryable());
                assert_eq!(read.category(), failure.category());
                assert_eq!(read.stack, failure.stack);
            }
            (Outcome::Retry { .. }, Outcome::Failed(read)) => {
                assert!(read.is_retryable() && read.message == "later");
            }
            (Outcome::Cancelled { .. }, Outcome::Cancelled { partial }) => {
                let expected = r#"{"cancelledDuringPhase":null,"partialProgress":{"done":5}}"#;
                assert_eq!(partial.unwrap().as_str(), expected);
            }
            (outcome, read) => panic!("{outcome:?} is read as {read:?}"),
        }
    }
}
