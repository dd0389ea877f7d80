//! Tests of what scripts see, return and fail with, without a sandbox.

use guest_sdk::{Category, Error, Level, MockHost};
use serde_json::{Value, json};

use crate::{Params, run as handle};

fn params(script: &str) -> Params {
    Params {
        script: script.to_owned(),
        caller_id: "alice".to_owned(),
        context_id: "project-7".to_owned(),
        env: [("REGION".to_owned(), "eu".to_owned())].into(),
    }
}

fn run(script: &str) -> Result<Value, Error> {
    handle(&MockHost::new().ctx(), params(script))
}

fn failed(script: &str) -> (String, Category, Value) {
    match run(script) {
        Err(Error::Failed(failed)) => {
            let details = failed.details.unwrap_or_default();
            (failed.kind, failed.category, details)
        }
        other => panic!("{script}: {other:?}"),
    }
}

#[test]
fn results_are_json() {
    #[rustfmt::skip]
    let table = [
        ("40 + 2", json!(42)),
        ("", Value::Null),
        ("let a = 1;", Value::Null),
        ("1.5 * 2.0", json!(3.0)),
        ("'x'", json!("x")),
        ("`a${1 + 1}`", json!("a2")),
        ("#{a: [1, true, ()], \"b c\": \"ü\"}", json!({"a": [1, true, null], "b c": "ü"})),
        ("let f = |x| x * 2; f.call(21)", json!(42)),
        ("fn f(n) { if n < 2 { n } else { f(n - 1) + f(n - 2) } } f(12)", json!(144)),
        ("blob(2, 7)", json!([7, 7])),
        ("exit(3); 4", json!(3)),
        ("eval(\"1 + 1\")", json!(2)),
    ];
    for (script, expected) in table {
        assert_eq!(run(script).unwrap(), expected, "{script}");
    }
}

#[test]
fn scripts_see_the_caller_and_the_environment() {
    let script = r"
        fn seen() { [CALLER_ID, CONTEXT_ID, REGION, ENV.REGION] }
        [CALLER_ID, CONTEXT_ID, REGION, ENV.REGION, seen(), ENV.NOT_THERE]
    ";
    let seen = json!(["alice", "project-7", "eu", "eu"]);
    let expected = json!(["alice", "project-7", "eu", "eu", seen, null]);
    assert_eq!(run(script).unwrap(), expected);
    let changed = run("CALLER_ID = \"mallory\"; CALLER_ID");
    assert!(changed.is_err_and(|error| matches!(error, Error::Failed(_))));
}

#[test]
fn print_and_debug_go_to_the_log() {
    let host = MockHost::new();
    handle(&host.ctx(), params("print(\"hello\"); debug([1, \"x\"]);")).unwrap();
    let expected = [
        (Level::Info, "hello".to_owned()),
        (Level::Debug, "[1, \"x\"]".to_owned()),
    ];
    assert_eq!(host.logs(), expected);
}

#[test]
fn errors_have_a_kind_and_a_place() {
    use Category::{DataQuality, UserCode};
    #[rustfmt::skip]
    let table = [
        ("let x = ;", "script_syntax", DataQuality, Some(1)),
        ("\n\nnot_there", "script_error", UserCode, Some(3)),
        ("1 / 0", "script_error", UserCode, Some(1)),
        ("9223372036854775807 + 1", "script_error", UserCode, Some(1)),
        ("\nimport \"os\" as os;", "script_error", UserCode, Some(2)),
        ("throw #{code: 7};", "script_thrown", UserCode, Some(1)),
        ("fn f() { 1 + \"x\".y } f()", "script_error", UserCode, Some(1)),
        ("eval(\"let x = ;\")", "script_syntax", DataQuality, Some(1)),
        ("0.0 / 0.0", "script_result", UserCode, None),
        ("|x| x", "script_result", UserCode, None),
        ("let a = []; for i in 0..200 { a = [a]; } a", "script_result", UserCode, None),
    ];
    for (script, kind, category, line) in table {
        let (got, by, details) = failed(script);
        assert_eq!((got.as_str(), by), (kind, category), "{script}: {details}");
        assert_eq!(details["line"].as_u64(), line, "{script}: {details}");
    }
    let (_, _, details) = failed("throw #{code: 7};");
    assert_eq!(details["thrown"], json!({"code": 7}));
}

#[test]
fn a_loop_ends_when_the_job_is_cancelled() {
    let host = MockHost::new();
    host.cancel_after(3, "enough");
    let ended = handle(&host.ctx(), params("loop {}"));
    assert_eq!(ended, Err(Error::Cancelled { partial: None }));
}
