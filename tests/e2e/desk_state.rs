//! The state that handlers keep.

use std::fs;
use std::process::Command;

use host_tests::server::host as program;
use host_tests::{Client, guests};
use serde_json::{Value, json};

use crate::fixture::{Own, own};

const MANIFEST: &str = "[handlers.ask.state]\nquota_kib = 2048\nshared = [\"rates\"]\n";

fn host() -> Own {
    let own = own();
    deploy(&own.server.client(), MANIFEST);
    own
}

fn deploy(client: &Client, manifest: &str) {
    let hostile = fs::read(guests::component("hostile")).unwrap();
    let answer = client
        .deploy_accepted("hostile", &hostile, Some(manifest))
        .unwrap();
    assert_eq!(answer.status, 201, "{answer:?}");
}

/// Runs one attempt, which fails if asked to. Returns its answers.
fn run_asks(client: &Client, asks: &Value, failures: u32) -> Value {
    let params = json!({"asks": asks, "failures": failures});
    let job = client.run(&json!({"handler": "ask", "params": params, "max_attempts": 1}));
    let state = if failures == 0 {
        "completed"
    } else {
        "discarded"
    };
    assert_eq!(job["state"], state, "{job}");
    job["result"].clone()
}

#[test]
fn an_attempt_reads_what_it_has_set_and_others_what_completed_ones_have() {
    let own = host();
    let client = own.server.client();
    let key = |key: &str| json!({"key": key});
    let asks = json!([
        {"get": key("a")},
        {"set": [key("a"), 1]},
        {"get": key("a")},
        {"set": [key("b"), {"c": [2]}]},
        {"list": key("")},
        {"set": [{"key": "now", "now": true}, 3]},
    ]);
    let answers = json!([null, null, 1, null, ["a", "b"], null]);
    run_asks(&client, &asks, 9);
    assert_eq!(
        run_asks(&client, &json!([{"list": key("")}]), 0),
        json!([["now"]])
    );
    let now = json!([null, null, 1, null, ["a", "b", "now"], null]);
    assert_ne!(answers, now);
    assert_eq!(run_asks(&client, &asks, 0), now);
    let asks = json!([
        {"get": key("b")},
        {"delete": key("a")},
        {"get": key("a")},
        {"list": key("")},
        {"set": [key("aa"), 0]},
        {"list": key("a")},
        {"delete": {"key": "now", "now": true}},
        {"list": {"key": "", "space": "rates"}},
    ]);
    let answers = json!([{"c": [2]}, null, null, ["b", "now"], null, ["aa"], null, []]);
    assert_eq!(run_asks(&client, &asks, 0), answers);
    assert_eq!(
        run_asks(&client, &json!([{"list": key("")}]), 0),
        json!([["aa", "b"]])
    );
}

#[test]
fn a_key_is_compared_with_what_the_attempt_sees() {
    let own = host();
    let client = own.server.client();
    let shared = |now: bool| json!({"space": "rates", "key": "eur", "now": now});
    let asks = json!([
        {"compare": [shared(false), 1, 2]},
        {"compare": [shared(false), null, 1]},
        {"compare": [shared(false), null, 2]},
        {"compare": [shared(false), 1, 2]},
        {"get": shared(false)},
    ]);
    assert_eq!(
        run_asks(&client, &asks, 0),
        json!([false, true, false, true, 2])
    );
    let asks = json!([
        {"compare": [shared(true), 1, 3]},
        {"compare": [shared(true), 2, 3]},
        {"get": shared(false)},
    ]);
    assert_eq!(run_asks(&client, &asks, 0), json!([false, true, 3]));
}

#[test]
fn a_change_of_another_fails_the_attempt_at_its_end() {
    let own = host();
    let client = own.server.client();
    let params = json!({
        "asks": [{"compare": [{"key": "a"}, null, 1]}, {"set": [{"key": "b"}, 1]},
                 {"set": [{"key": "asked", "now": true}, 1]}],
        "hangs_until": "go",
    });
    let id = client.enqueue(&json!({"handler": "ask", "params": params, "max_attempts": 1}));
    let path = |key: &str| format!("/api/v1/state/handler:ask/value?key={key}");
    host_tests::eventually("it has asked", std::time::Duration::from_mins(1), || {
        (client.get(&path("asked")).unwrap().status == 200).then_some(())
    });
    for key in ["a", "go"] {
        let put = client.call("PUT", &path(key), Some(&json!({"value": "7"})));
        assert_eq!(put.unwrap().status, 200);
    }
    let job = client.wait(&id);
    assert_eq!(job["state"], "discarded", "{job}");
    assert_eq!(job["failure"]["kind"], "writes_refused", "{job}");
    let message = job["failure"]["message"].as_str().unwrap();
    assert!(
        message.contains("the key \"a\" of the state handler:ask has changed"),
        "{message}"
    );
    assert_eq!(client.get(&path("b")).unwrap().status, 404);
    let text = client.get("/metrics").unwrap().body;
    let ended = |outcome: &str, attempts: u32| {
        let line = format!("host_attempts_total{{outcome=\"{outcome}\"}} {attempts}\n");
        assert!(text.as_str().unwrap().contains(&line), "{text}");
    };
    ended("completed", 0);
    ended("failed", 1);
}

#[test]
fn limits_and_missing_grants_are_refused_with_a_sentence() {
    let own = host();
    let client = own.server.client();
    let mib = 1 << 20;
    let long = "x".repeat(513);
    let key = |key: &str| json!({"key": key});
    let cases = [
        (
            json!({"set_long": [key("a"), mib + 1]}),
            "InvalidRequest",
            "at most 1048576 bytes",
        ),
        (json!({"set": [key(&long), 1]}), "InvalidRequest", "got 513"),
        (
            json!({"set": [key("a\u{0}"), 1]}),
            "InvalidRequest",
            "control characters",
        ),
        (json!({"get": key("")}), "InvalidRequest", "got 0"),
        (
            json!({"get": {"space": "other", "key": "a"}}),
            "NotGranted",
            "share the state \"other\"",
        ),
    ];
    let asks: Vec<&Value> = cases.iter().map(|(ask, ..)| ask).collect();
    let answers = run_asks(&client, &json!(asks), 0);
    for ((asked, kind, part), answer) in cases.iter().zip(answers.as_array().unwrap()) {
        assert_eq!(answer["kind"], *kind, "{asked}: {answer}");
        assert!(
            answer["message"].as_str().unwrap().contains(part),
            "{answer}"
        );
    }
    // The quota is 2 MiB: immediately for what changes immediately, and at the end of the attempt.
    let now = |key: &str| json!({"set_long": [{"key": key, "now": true}, mib]});
    let answers = run_asks(&client, &json!([now("a"), now("b")]), 0);
    assert_eq!(answers[1]["kind"], "LimitReached", "{answers}");
    let over = json!({"asks": [{"set_long": [key("b"), mib]}]});
    let job = client.run(&json!({"handler": "ask", "params": over, "max_attempts": 1}));
    assert_eq!(job["failure"]["kind"], "writes_refused", "{job}");
    // 8 MiB for an attempt.
    let many: Vec<Value> = (0..9)
        .map(|n| json!({"set_long": [key(&n.to_string()), mib]}))
        .collect();
    let params = json!({"asks": many, "failures": 1});
    let job = client.run(&json!({"handler": "ask", "params": params, "max_attempts": 2}));
    assert_eq!(job["failure"]["kind"], "writes_refused", "{job}");
    deploy(&client, "[[handlers.ask.jobs]]\nhandlers = [\"noop\"]\n");
    let answers = run_asks(&client, &json!([{"get": key("a")}]), 0);
    assert_eq!(answers[0]["kind"], "NotGranted", "{answers}");
    let message = answers[0]["message"].as_str().unwrap();
    assert!(message.contains("[handlers.ask.state]"), "{message}");
}

#[test]
fn operators_list_read_write_and_remove_state() {
    let own = host();
    let client = own.server.client();
    let state = |words: &[&str]| {
        let ran = Command::new(program())
            .arg("state")
            .args(words)
            .args(["--server", &format!("http://{}", own.server.address())])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&ran.stdout).into_owned();
        (
            ran.status.code(),
            text,
            String::from_utf8_lossy(&ran.stderr).into_owned(),
        )
    };
    run_asks(
        &client,
        &json!([{"set": [{"key": "page/1"}, {"a": 1}]}, {"set": [{"key": "page/2"}, 2]}]),
        0,
    );
    let own_space = "handler:ask";
    assert_eq!(state(&["get", own_space, "page/1"]).1, "{\"a\":1}");
    assert_eq!(state(&["set", own_space, "cursor", "17"]).0, Some(0));
    assert_eq!(
        run_asks(&client, &json!([{"get": {"key": "cursor"}}]), 0),
        json!([17])
    );
    let spaces: Value = serde_json::from_str(&state(&["ls", "-o", "json"]).1).unwrap();
    assert_eq!(spaces[0]["space"], own_space, "{spaces}");
    assert_eq!(spaces[0]["keys"], 3, "{spaces}");
    let text = state(&["ls", own_space, "--prefix", "page/", "-o", "json"]).1;
    let keys: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&keys[0]["key"], &keys[1]["bytes"]),
        (&json!("page/1"), &json!(1)),
        "{keys}"
    );
    assert_eq!(state(&["rm", own_space, "cursor"]).0, Some(0));
    assert_eq!(state(&["get", own_space, "cursor"]).0, Some(5));
    assert_eq!(state(&["rm", own_space, "--all"]).0, Some(0));
    assert!(state(&["ls"]).1.is_empty() || !state(&["ls"]).1.contains(own_space));
    let wrong = client.get("/api/v1/state/ask").unwrap();
    assert_eq!(wrong.body["code"], "invalid_name", "{wrong:?}");
}
