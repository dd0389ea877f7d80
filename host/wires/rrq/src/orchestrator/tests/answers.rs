//! Answers that are none, too large or not JSON: whose fault each is.

use host_core::failure::{Category, FailureKind};
use host_core::outcome::Outcome;
use host_core::port::{End, Tag};
use serde_json::{Value, json};

use super::fixture::{Bench, response};
use crate::config::Dialect;
use crate::frame::Defect;
use crate::ids::Ids;

use super::rules::{completed, failure_kind};

#[test]
fn bad_answers_fail_their_attempt_and_no_other() {
    let error = json!({"message": "m"});
    // The runner's answer to request 0, and the code that is counted.
    let cases: Vec<(Value, Option<&str>, Option<FailureKind>)> = vec![
        (
            json!({"job_id": "x", "status": "success"}),
            Some("E_OUTCOME_JOB"),
            Some(FailureKind::UserError),
        ),
        (
            json!({"job_id": null, "status": "success"}),
            Some("E_OUTCOME_JOB"),
            Some(FailureKind::UserError),
        ),
        (
            json!({"status": "cancelled"}),
            Some("E_OUTCOME_STATUS"),
            Some(FailureKind::UserError),
        ),
        (
            json!({"status": 7}),
            Some("E_OUTCOME_STATUS"),
            Some(FailureKind::UserError),
        ),
        (
            json!({}),
            Some("E_OUTCOME_STATUS"),
            Some(FailureKind::UserError),
        ),
        (
            json!({"status": "retry", "retry_after_seconds": "soon"}),
            Some("E_FIELD_TYPE"),
            Some(FailureKind::UserError),
        ),
        (
            json!({"status": "error", "error": "text"}),
            Some("E_FIELD_TYPE"),
            Some(FailureKind::UserError),
        ),
        (
            json!({"request_id": "other", "status": "success"}),
            Some("E_OUTCOME_UNKNOWN"),
            None,
        ),
        (
            json!({"status": "success", "result": 1, "error": error}),
            None,
            None,
        ),
        (
            json!({"status": "success", "result": 1, "extra": {"a": 1}}),
            None,
            None,
        ),
    ];
    for (body, code, kind) in cases {
        let mut bench = Bench::up(1, 2, Dialect::Current);
        let main = bench.links[0].1;
        bench.start(0, 60_000);
        bench.start(1, 60_000);
        bench.handle_message(main, &response(0, &body));
        assert_eq!(bench.counted, code.as_slice(), "{body}");
        if let Some(kind) = kind {
            let (_, End::Outcome(Outcome::Failed(failure))) = &bench.ended[0] else {
                panic!("{body}: {:?}", bench.ended);
            };
            assert_eq!(failure.kind, kind, "{body}");
            assert_eq!(failure.category(), Category::Infrastructure);
            assert!(failure.is_retryable());
            assert_eq!(failure.code.as_deref(), code);
        }
        bench.handle_success(main, 1);
        assert_eq!(
            bench.ended.last().unwrap(),
            &(Tag(1), completed(1)),
            "{body}"
        );
        assert!(
            !bench.log.iter().any(|line| line.starts_with("close")),
            "{body}"
        );
    }
}

#[test]
fn bad_frames_end_their_connection() {
    for payload in [
        &b"{nope"[..],
        b"\xff",
        b"{\"type\":\"log\"}",
        b"{\"type\":\"response\",\"payload\":{}}",
    ] {
        let mut bench = Bench::up(2, 1, Dialect::Current);
        bench.start(0, 60_000);
        bench.start(1, 60_000);
        let (bad, good) = (bench.links[0].1, bench.links[1].1);
        bench.handle_frame(bad, payload);
        assert_eq!(bench.log, [format!("close {}", bad.0)]);
        assert!(matches!(&bench.ended[..], [(Tag(0), End::Lost(_))]));
        bench.close(bad);
        bench.handle_success(good, 1);
        assert_eq!(bench.ended.len(), 2);
        bench.check_quiet();
    }
}

#[test]
fn an_answer_that_is_not_json_fails_its_own_attempt_alone() {
    let ids = r#""job_id":"j0","request_id":"r0""#;
    let nan =
        format!(r#"{{"type":"response","payload":{{{ids},"status":"success","result":NaN}}}}"#);
    let arrays = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let deep = nan.replace("NaN", &arrays);
    let cut = nan.replace("NaN}}", "[1,");
    let latin = [nan.replace("NaN}}", "\"").as_bytes(), b"\xff\"}}"].concat();
    for text in [nan.as_bytes(), deep.as_bytes(), cut.as_bytes(), &latin] {
        let mut bench = Bench::up(1, 2, Dialect::Current);
        let main = bench.links[0].1;
        bench.start(0, 60_000);
        bench.start(1, 60_000);
        bench.handle_frame(main, text);
        assert_eq!(bench.counted, ["E_JSON"]);
        let (tag, End::Outcome(Outcome::Failed(failure))) = &bench.ended[0] else {
            panic!("{:?}", bench.ended);
        };
        assert_eq!((*tag, failure.code.as_deref()), (Tag(0), Some("E_JSON")));
        assert!(failure.is_retryable());
        bench.handle_success(main, 1);
        assert_eq!(bench.ended[1], (Tag(1), completed(1)));
        assert_eq!(bench.log, Vec::<String>::new());
    }
}

#[test]
fn a_delay_that_is_no_number_or_negative_counts_as_none() {
    for (delay, after_ms) in [
        ("NaN", 0),
        ("-Infinity", 0),
        ("-1", 0),
        ("Infinity", 31_536_000_000),
        ("0.25", 250),
    ] {
        let mut bench = Bench::up(1, 1, Dialect::Current);
        bench.start(0, 60_000);
        let text = format!(
            r#"{{"type": "response", "payload": {{"job_id": "j0", "request_id": "r0", "status": "retry", "result": null, "error": {{"message": "later"}}, "retry_after_seconds": {delay}}}}}"#
        );
        bench.handle_frame(bench.links[0].1, text.as_bytes());
        let retry = Outcome::Retry {
            reason: "later".to_owned(),
            after_ms: Some(after_ms),
        };
        assert_eq!(bench.ended, [(Tag(0), End::Outcome(retry))], "{delay}");
        assert_eq!(bench.counted, Vec::<&str>::new());
    }
}

#[test]
fn an_answer_larger_than_a_frame_fails_its_own_job_alone() {
    let mut bench = Bench::up(1, 2, Dialect::Current);
    bench.start(0, 60_000);
    bench.start(1, 60_000);
    let main = bench.links[0].1;
    let ids = Some(Ids {
        request: "r0".to_owned(),
        job: "j0".to_owned(),
    });
    let bytes = 17 << 20;
    bench.handle_read(main, Err(Defect::Skipped { bytes, ids }));
    assert_eq!(bench.counted, ["E_FRAME_TOO_LARGE"]);
    assert_eq!(
        failure_kind(&bench.ended[0].1),
        Some(FailureKind::ResultTooLarge)
    );
    bench.handle_success(main, 1);
    assert_eq!(bench.ended[1], (Tag(1), completed(1)));
    assert_eq!(bench.log, Vec::<String>::new());
    // Without ids, the answer belongs to no known request.
    bench.start(2, 60_000);
    bench.handle_read(main, Err(Defect::Skipped { bytes, ids: None }));
    assert_eq!(bench.log, [format!("close {}", main.0)]);
    assert!(matches!(&bench.ended[2], (Tag(2), End::Lost(why)) if why.contains("at most")));
}

#[test]
fn a_request_of_a_runner_is_counted_and_fails_nothing() {
    let mut bench = Bench::up(1, 1, Dialect::Current);
    let main = bench.links[0].1;
    bench.start(0, 60_000);
    for payload in [
        json!({"job_id": "j0", "request_id": "r0"}),
        json!([]),
        json!(null),
    ] {
        for kind in ["request", "cancel"] {
            bench.handle_message(main, &json!({"type": kind, "payload": payload}));
            assert_eq!(bench.counted.pop(), Some("E_DIRECTION"));
        }
    }
    bench.handle_success(main, 0);
    assert_eq!(bench.ended, [(Tag(0), completed(0))]);
    assert_eq!(bench.log, Vec::<String>::new());
}

#[test]
fn other_messages_and_second_answers_change_nothing() {
    let mut bench = Bench::up(1, 2, Dialect::Current);
    let main = bench.links[0].1;
    bench.start(0, 60_000);
    let cancel = json!({"type": "cancel", "payload": {"job_id": "j0", "request_id": "r0"}});
    bench.handle_message(main, &cancel);
    bench.handle_success(main, 0);
    bench.handle_success(main, 0);
    assert_eq!(bench.counted, ["E_DIRECTION", "E_OUTCOME_UNKNOWN"]);
    assert_eq!(bench.ended.len(), 1);
}
