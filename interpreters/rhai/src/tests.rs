//! What scripts see and return, and how they fail, without a sandbox.

use guest_sdk::{Category, Error, HttpError, HttpErrorKind, HttpResponse, Level, MockHost};
use serde_json::{Value, json};

use crate::{Params, run as handle};

/// Runs a script as a host with one handler would, and returns its output and its end.
fn run_with(
    script: &str,
    handler: impl Fn(&str, &Value) -> Result<Value, &'static str>,
) -> (Vec<String>, Result<Value, Error>) {
    run_on(&MockHost::new(), script, handler)
}

fn run_on(
    host: &MockHost,
    script: &str,
    handler: impl Fn(&str, &Value) -> Result<Value, &'static str>,
) -> (Vec<String>, Result<Value, Error>) {
    let mut answers: Vec<Value> = Vec::new();
    loop {
        let mut params = params(script);
        params.calls = answers
            .iter()
            .map(|it| serde_json::from_value(it.clone()).unwrap())
            .collect();
        let ended = handle(&host.ctx(), params);
        let asked = match &ended {
            Err(Error::Failed(failed)) if failed.kind == "script_call" => failed.details.clone(),
            _ => None,
        };
        let Some(asked) = asked else {
            let printed = host.logs().into_iter().map(|line| line.message);
            return (printed.collect(), ended);
        };
        let name = asked["handler"].as_str().unwrap();
        let mut answer = match handler(name, &asked["params"]) {
            Ok(ok) => json!({"key": asked["key"], "ok": ok}),
            Err(why) => json!({"key": asked["key"], "failed": {"kind": "broken", "message": why}}),
        };
        if let Some(kept) = asked.get("kept") {
            answer["kept"] = kept.clone();
        }
        answers.push(answer);
    }
}

fn params(script: &str) -> Params {
    Params {
        script: script.to_owned(),
        caller_id: "alice".to_owned(),
        context_id: "project-7".to_owned(),
        env: [("REGION".to_owned(), "eu".to_owned())].into(),
        calls: Vec::new(),
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
    let logs: Vec<_> = host
        .logs()
        .into_iter()
        .map(|line| (line.level, line.message))
        .collect();
    let expected = [
        (Level::Info, "hello".to_owned()),
        (Level::Debug, "[1, \"x\"]".to_owned()),
    ];
    assert_eq!(logs, expected);
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

#[test]
fn calls_are_answered_in_order_and_what_is_printed_is_printed_once() {
    let script = r#"
        print("begin");
        let sum = 0;
        for n in 1..=3 {
            sum += run("math.double", #{n: n});
            print(`got ${sum}`);
        }
        [sum, run("math.none"), run("math.list", #{})[1]]
    "#;
    let (printed, ended) = run_with(script, |handler, params| {
        Ok(match handler {
            "math.double" => json!(params["n"].as_i64().unwrap() * 2),
            "math.list" => json!([1, {"a": 1.5}]),
            _ => Value::Null,
        })
    });
    assert_eq!(ended.unwrap(), json!([12, null, {"a": 1.5}]));
    assert_eq!(printed, ["begin", "got 2", "got 6", "got 12"]);
}

#[test]
fn a_failed_call_can_be_caught_or_ends_the_script() {
    let fails = |_: &str, _: &Value| Err("no such vm");
    let script = r#"let seen; try { run("vm.start", #{}) } catch (e) { seen = [e.number, e.handler, e.kind, e.message]; } seen"#;
    let (_, ended) = run_with(script, fails);
    assert_eq!(
        ended.unwrap(),
        json!([1, "vm.start", "broken", "no such vm"])
    );
    let (_, ended) = run_with("fn f() { run(\"vm.start\") } f()", fails);
    let Err(Error::Failed(failed)) = ended else {
        panic!("{ended:?}")
    };
    assert_eq!(failed.kind, "script_call_failed");
    assert_eq!(failed.details, Some(json!({"call": 1})));
}

#[test]
fn no_script_catches_a_call_that_has_no_answer_yet() {
    let script = "try { run(\"vm.start\") } catch { 7 }";
    let (_, ended) = run_with(script, |_, _| Ok(json!("started")));
    assert_eq!(ended.unwrap(), json!("started"));
}

#[test]
fn a_script_that_does_something_else_the_second_time_is_refused() {
    let asked = match handle(&MockHost::new().ctx(), params("run(\"a.b\", #{n: 1})")) {
        Err(Error::Failed(failed)) => failed.details.unwrap(),
        other => panic!("{other:?}"),
    };
    let mut other = params("run(\"a.b\", #{n: 2})");
    let answer = json!({"key": asked["key"], "ok": 1});
    other.calls = vec![serde_json::from_value(answer).unwrap()];
    match handle(&MockHost::new().ctx(), other) {
        Err(Error::Failed(failed)) => {
            assert_eq!(failed.kind, "script_not_repeatable");
            assert_eq!(failed.retryable, Some(false));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn params_of_a_call_must_be_json() {
    let script = "let seen; try { run(\"a.b\", #{f: |x| x}) } catch (e) { seen = e; } seen";
    let (_, ended) = run_with(script, |_, _| Ok(Value::Null));
    let caught = ended.unwrap();
    assert!(caught.to_string().contains("JSON"), "{caught}");
}

#[test]
fn a_script_enqueues_jobs_and_keeps_state() {
    let host = MockHost::new().with_state("page", &7);
    let script = r#"
        let page = state_get("page");
        enqueue("import", #{page: page});
        enqueue("import", #{page: page + 1}, #{queue: "rows", priority: 2});
        state_set("page", page + 2);
        state_set("none", ());
        state_get("missing") == ()
    "#;
    let ended = host.run(|ctx| handle(ctx, params(script)));
    assert_eq!(ended.unwrap(), json!(true));
    assert_eq!(host.state("page"), Some(9));
    let jobs = host.enqueued();
    assert_eq!(jobs[0].params, json!({"page": 7}));
    assert_eq!(jobs[1].others["queue"], "rows");
    let refused = MockHost::new().without_store();
    let ended = handle(&refused.ctx(), params("enqueue(\"import\", #{})"));
    let Err(Error::Failed(failed)) = ended else {
        panic!("it is refused");
    };
    assert!(failed.message.contains("has no store"), "{failed:?}");
}

#[test]
fn a_script_holds_a_key_once_however_often_it_runs_again() {
    let host = MockHost::new().with_limit("by-customer");
    let script = r#"hold("by-customer", 1500); run("next", #{})"#;
    let (_, ended) = run_on(&host, script, |_, _| Ok(json!(1)));
    assert_eq!(ended.unwrap(), json!(1));
    assert_eq!(host.holds(), [("by-customer".to_owned(), 1_500)]);
}

/// Answers with the request: its method, headers and body.
fn reflecting() -> MockHost {
    MockHost::new().answer(|request| {
        if request.url.ends_with("/gone") {
            return Err(HttpError {
                kind: HttpErrorKind::Unreachable,
                message: "no answer".to_owned(),
            });
        }
        let body = String::from_utf8_lossy(&request.body);
        let seen = json!([request.method, request.headers, body, request.timeout_ms]);
        let mut response = HttpResponse::json_of(201, &seen);
        response.headers.push(("x-two".to_owned(), "a".to_owned()));
        response.headers.push(("x-two".to_owned(), "b".to_owned()));
        Ok(response)
    })
}

#[test]
fn a_script_makes_requests() {
    let host = reflecting();
    let script = r#"
        let got = http_get("https://a.com/x");
        let seen = [];
        for body in ["text", #{a: [1]}, blob(2, 65)] {
            seen += http_post("https://a.com/x", body).body;
        }
        let put = http_request(#{
            method: "PUT", url: "https://a.com/x", headers: #{"x-a": "b", n: 1}, body: "c", timeout_ms: 9
        });
        let error = ();
        try { http_get("https://a.com/gone") } catch (e) { error = e.kind; }
        [got.status, got.headers["x-two"], got.body, seen, put.body, error]
    "#;
    let ended = handle(&host.ctx(), params(script)).unwrap();
    let json = r#"["content-type","application/json"]"#;
    let expected = json!([
        201,
        "a, b",
        r#"["GET",[],"",null]"#,
        [
            r#"["POST",[],"text",null]"#,
            format!(r#"["POST",[{json}],"{{\"a\":[1]}}",null]"#),
            r#"["POST",[],"AA",null]"#,
        ],
        r#"["PUT",[["n","1"],["x-a","b"]],"c",9]"#,
        "http_unreachable",
    ]);
    assert_eq!(ended, expected);
    for wrong in [
        "#{}",
        "#{url: 1}",
        "#{url: \"https://a.com\", metod: \"GET\"}",
    ] {
        let (kind, ..) = failed(&format!("http_request({wrong})"));
        assert_eq!(kind, "script_thrown", "{wrong}");
    }
    let (_, _, details) = failed("http_get(\"https://a.com\")");
    assert_eq!(details["thrown"]["kind"], "http_not_granted", "{details}");
}

#[test]
fn a_script_that_calls_handlers_makes_each_request_once() {
    let host = reflecting();
    let script = r#"
        let first = http_get("https://a.com/1").status;
        let error = ();
        try { http_get("https://a.com/gone") } catch (e) { error = e.kind; }
        let one = run("math.one");
        let second = http_post("https://a.com/2", `${one}`).body;
        let two = run("math.two");
        http_get("https://a.com/3");
        [first, error, one, second, two]
    "#;
    let (_, ended) = run_on(&host, script, |handler, _| Ok(json!(handler)));
    let second = r#"["POST",[],"math.one",null]"#;
    let expected = json!([201, "http_unreachable", "math.one", second, "math.two"]);
    assert_eq!(ended.unwrap(), expected);
    let urls: Vec<String> = host.requests().into_iter().map(|it| it.url).collect();
    let once = ["1", "gone", "2", "3"].map(|path| format!("https://a.com/{path}"));
    assert_eq!(urls, once);
}

#[test]
fn a_script_that_requests_something_else_the_second_time_is_refused() {
    let asked = match handle(
        &reflecting().ctx(),
        params("http_get(\"https://a.com/1\"); run(\"a.b\")"),
    ) {
        Err(Error::Failed(failed)) => failed.details.unwrap(),
        other => panic!("{other:?}"),
    };
    let mut other = params("http_get(\"https://a.com/2\"); run(\"a.b\")");
    let answer = json!({"key": asked["key"], "ok": 1, "kept": asked["kept"]});
    other.calls = vec![serde_json::from_value(answer).unwrap()];
    match handle(&reflecting().ctx(), other) {
        Err(Error::Failed(failed)) => assert_eq!(failed.kind, "script_not_repeatable"),
        other => panic!("{other:?}"),
    }
}
