//! What a script gets for its calls, and what ends it. No handler runs in these tests.

use host_core::chain::{CALL, CALL_FAILED};
use serde_json::{Value, json};

use super::*;

fn script(limits: Limits) -> Chain {
    let mut start = start(limits);
    start.context.handler = SCRIPT.to_owned();
    start.params = JsonText(r#"{"script":"…"}"#.to_owned());
    chain_of(SCRIPT, &start)
}

fn call_outcome(kind: &str, details: &Value) -> Outcome {
    Outcome::Failed(Failure {
        user_kind: Some(kind.to_owned()),
        details: Some(JsonText(details.to_string())),
        ..Failure::new(FailureKind::UserError, "it asks")
    })
}

fn call(handler: &str) -> Outcome {
    let details = json!({"handler": handler, "params": {"name": "x"}, "key": "k"});
    call_outcome(CALL, &details)
}

fn failed(kind: FailureKind) -> Outcome {
    Outcome::Failed(Failure::new(kind, "it broke"))
}

/// Returns the answers that a start of the script has.
fn answers(start: &Start) -> Value {
    assert_eq!(start.context.handler, SCRIPT);
    let params: Value = serde_json::from_str(start.params.as_str()).unwrap();
    assert_eq!(params["script"], "…");
    params["calls"].clone()
}

#[test]
fn a_script_is_started_again_with_the_answers_so_far() {
    let mut chain = script(Limits::default());
    let first = run(chain.go(call("vm.define"), METER, left(30_000)));
    assert_eq!(first.context.handler, "vm.define");
    assert_eq!(first.params.as_str(), r#"{"name":"x"}"#);
    let again = run(chain.go(completed("{\"a\":1}"), METER, left(20_000)));
    let one = json!({"key": "k", "ok": {"a": 1}});
    assert_eq!(answers(&again), json!([one]));
    assert_eq!(again.limits.timeout_ms, 20_000);
    run(chain.go(call("vm.start"), METER, left(20_000)));
    let again = run(chain.go(Outcome::Completed { result: None }, METER, left(9)));
    assert_eq!(answers(&again), json!([one, {"key": "k", "ok": null}]));
    assert_eq!(
        end(chain.go(completed("7"), METER, left(9))),
        completed("7")
    );
    assert_eq!(chain.used().fuel, 500, "all five are counted");
}

#[test]
fn fuel_is_shared_and_the_time_ends_it() {
    let limits = Limits {
        fuel: Some(250),
        ..Limits::default()
    };
    let mut chain = script(limits);
    let called = run(chain.go(call("vm.start"), METER, left(10)));
    assert_eq!(called.limits.fuel, Some(150));
    let again = run(chain.clone().go(completed("1"), METER, left(10)));
    assert_eq!(again.limits.fuel, Some(50));
    let late = failure(chain.go(completed("1"), METER, left(0)));
    assert_eq!(late.kind, FailureKind::TimedOut);
    assert!(late.message.contains("common limit"), "{}", late.message);
}

#[test]
fn a_script_may_catch_the_failure_of_a_call_or_ends_with_it() {
    for (handler, ended, kind) in [
        ("vm.start", Some(FailureKind::Trapped), "trapped"),
        ("vm.missing", None, "handler_not_found"),
        ("vm.secret", None, "grant_missing"),
        (PLANNER, None, "invalid_params"),
    ] {
        let mut chain = script(Limits::default());
        let mut next = chain.go(call(handler), METER, left(10));
        if let Some(ended) = ended {
            run(next);
            next = chain.go(failed(ended), METER, left(10));
        }
        let failed = answers(&run(next))[0]["failed"].clone();
        assert_eq!(failed["kind"], kind, "{failed}");
        let caught = end(chain.clone().go(completed("1"), METER, left(10)));
        assert_eq!(caught, completed("1"), "{kind}");
        let ended = failure(chain.go(
            call_outcome(CALL_FAILED, &json!({"call": 1})),
            METER,
            left(10),
        ));
        assert_eq!(ended.kind.as_str(), kind, "{ended:?}");
        let begin = format!("call 1, {handler}: ");
        assert!(ended.message.starts_with(&begin), "{}", ended.message);
    }
}

#[test]
fn what_the_attempt_shares_and_what_others_decide_ends_it() {
    use FailureKind::{CellLost, FuelExhausted, TimedOut};
    let begun = || {
        let mut chain = script(Limits::default());
        run(chain.go(call("vm.start"), METER, left(10)));
        chain
    };
    for kind in [FuelExhausted, TimedOut, CellLost] {
        let ended = failure(begun().go(failed(kind), METER, left(10)));
        assert_eq!(ended.kind, kind);
        assert_eq!(ended.message, "call 1, vm.start: it broke");
    }
    let retry = Outcome::Retry {
        reason: "later".to_owned(),
        after_ms: None,
    };
    assert_eq!(end(begun().go(retry.clone(), METER, left(10))), retry);
    let stopping = AttemptBudget {
        stopping: true,
        ..left(10)
    };
    let cancelled = Outcome::Cancelled { partial: None };
    assert_eq!(end(begun().go(completed("1"), METER, stopping)), cancelled);
    assert_eq!(
        end(begun().go(cancelled.clone(), METER, left(10))),
        cancelled
    );
}

#[test]
fn answers_and_calls_are_bounded() {
    let limits = Limits {
        result_bytes_max: 50,
        ..Limits::default()
    };
    let mut chain = script(limits);
    for last in [false, true] {
        run(chain.go(call("vm.start"), METER, left(10)));
        let next = chain.go(completed("\"1234567890\""), METER, left(10));
        if last {
            assert_eq!(failure(next).kind, FailureKind::ResultTooLarge);
        } else {
            run(next);
        }
    }
    let deep = format!("{}{}", "[".repeat(127), "]".repeat(127));
    let mut chain = script(Limits::default());
    run(chain.go(call("vm.start"), METER, left(10)));
    let ended = failure(chain.go(completed(&deep), METER, left(10)));
    assert_eq!(ended.kind, FailureKind::ResultTooLarge);
    let mut chain = script(Limits::default());
    for _ in 0..1_000 {
        run(chain.go(call("vm.start"), Meter::default(), left(10)));
        run(chain.go(completed("1"), Meter::default(), left(10)));
    }
    let ended = failure(chain.go(call("vm.start"), METER, left(10)));
    assert_eq!(ended.kind, FailureKind::InvalidParams);
}

#[test]
fn a_request_that_is_none_traps() {
    for details in [
        json!(null),
        json!({"handler": "no name", "params": {}, "key": ""}),
    ] {
        let ended =
            failure(script(Limits::default()).go(call_outcome(CALL, &details), METER, left(10)));
        assert_eq!(ended.kind, FailureKind::Trapped, "{details}");
    }
    let own = Outcome::Failed(Failure::new(FailureKind::UserError, "line 3"));
    assert_eq!(
        end(script(Limits::default()).go(own.clone(), METER, left(10))),
        own
    );
}
