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
            FailureKind::UserError
            | FailureKind::Trapped
            | FailureKind::ResultTooLarge
            | FailureKind::WritesRefused => "USER_CODE",
            FailureKind::FuelExhausted | FailureKind::TimedOut => "TIMEOUT",
            FailureKind::MemoryLimit
            | FailureKind::LeaseLost
            | FailureKind::CellLost
            | FailureKind::Poison => "INFRASTRUCTURE",
            FailureKind::InvalidParams | FailureKind::InputFailed => "DATA_QUALITY",
            FailureKind::HandlerNotFound
            | FailureKind::GrantMissing
            | FailureKind::PrerequisiteFailed
            | FailureKind::StepsDiverged => "CONFIGURATION",
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
            result: json(r#"{"n":[1.50]}"#),
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

#[test]
fn a_result_that_is_no_output_of_the_contract_is_wrapped() {
    let output = |text: &str| {
        let result = Some(JsonText(text.to_owned()));
        let message = report(&Outcome::Completed { result }, &METER);
        message.output.map(|output| output.get().to_owned())
    };
    for text in [
        "{}",
        r#"{"a":[1]}"#,
        r#"{"rowCount":12,"byteSize":null,"deltaVersion":-1,"other":"x"}"#,
        r#"{"materializationId":"m","outputPath":"p","deltaTable":"t","deltaPartition":"d"}"#,
        r#"{"outputVisibilityState":"VISIBLE","publishedAt":"2027-01-15T08:00:00+02:00"}"#,
    ] {
        assert_eq!(output(text).as_deref(), Some(text));
    }
    for text in [
        "7",
        "\"text\"",
        "[1,2]",
        "true",
        r#"{"rowCount":"12"}"#,
        r#"{"rowCount":-1}"#,
        r#"{"rowCount":1.5}"#,
        r#"{"byteSize":18446744073709551616}"#,
        r#"{"materializationId":7}"#,
        r#"{"outputPath":["p"]}"#,
        r#"{"outputVisibilityState":"visible"}"#,
        r#"{"publishedAt":"yesterday"}"#,
        r#"{"publishedAt":5}"#,
        r#"{"publishError":{}}"#,
    ] {
        let wrapped = format!(r#"{{"result":{text}}}"#);
        assert_eq!(output(text), Some(wrapped));
    }
}

#[test]
fn an_end_that_is_too_large_is_shortened() {
    let long = "x".repeat(1 << 20);
    let mut failure = Failure::new(FailureKind::UserError, long.clone());
    failure.stack = Some(long.clone());
    let partial = Some(JsonText(format!("\"{long}\"")));
    let result = partial.clone();
    for (outcome, expected) in [
        (Outcome::Failed(failure), FAILED),
        (Outcome::Cancelled { partial }, CANCELLED),
        (Outcome::Completed { result }, FAILED),
    ] {
        let written = serde_json::to_string(&report(&outcome, &METER)).unwrap();
        let short = shortened(&written).unwrap();
        assert_eq!(short.outcome, expected);
        assert!(serde_json::to_string(&short).unwrap().len() < 2 << 10);
    }
}
