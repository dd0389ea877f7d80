//! Compares our description of the callbacks with that of the current contract, and reads its examples.

use host_core::outcome::Outcome;
use serde_json::Value;

use crate::messages::{
    CallbackError, EnvelopeIn, HeartbeatAnswer, TaskCompleted, TaskHeartbeat, TaskStarted,
};

/// A part of the contract's OpenAPI document.
const CONTRACT: &str = include_str!("../../../tests/captures/openapi.json");

fn ours() -> Value {
    serde_json::to_value(super::super::description().document).unwrap()
}

/// Follows a reference within a document.
fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(path) => document.pointer(&path[1..]).unwrap(),
        None => schema,
    }
}

fn schema<'a>(document: &'a Value, at: &'a Value) -> &'a Value {
    resolve(document, &at["content"]["application/json"]["schema"])
}

fn names(schema: &Value) -> Vec<&str> {
    let properties = schema["properties"].as_object().unwrap();
    properties.keys().map(String::as_str).collect()
}

fn required(schema: &Value) -> Vec<&str> {
    let names = schema["required"].as_array().into_iter().flatten();
    names.map(|name| name.as_str().unwrap()).collect()
}

#[test]
fn the_current_contract_is_a_part_of_ours() {
    let contract: Value = serde_json::from_str(CONTRACT).unwrap();
    let ours = ours();
    let paths = contract["paths"].as_object().unwrap();
    let callbacks: Vec<_> = paths
        .iter()
        .filter(|(path, _)| path.contains("/tasks/"))
        .collect();
    assert_eq!(callbacks.len(), 3);
    for (path, operation) in callbacks {
        let (theirs, our) = (&operation["post"], &ours["paths"][path]["post"]);
        let documented = &ours["paths"][path.strip_prefix("/api").unwrap()]["post"];
        assert_eq!(our["requestBody"], documented["requestBody"], "{path}");
        let request = schema(&contract, &theirs["requestBody"]);
        let our_request = schema(&ours, &our["requestBody"]);
        for name in names(request) {
            assert!(
                names(our_request).contains(&name),
                "{path}: {name} is not read"
            );
        }
        for name in required(our_request) {
            assert!(
                required(request).contains(&name),
                "{path}: {name} need not come"
            );
        }
        let answer = schema(&contract, &theirs["responses"]["200"]);
        let our_answer = schema(&ours, &our["responses"]["200"]);
        for name in required(answer) {
            assert!(
                required(our_answer).contains(&name),
                "{path}: {name} is not always sent"
            );
        }
        for (status, described) in theirs["responses"].as_object().unwrap() {
            if status.starts_with('4') {
                let error = schema(&contract, described);
                let our_error = schema(&ours, &our["responses"][status]);
                assert_eq!(required(error), required(our_error), "{path}: {status}");
                for name in names(our_error) {
                    assert!(names(error).contains(&name), "{path}: {status}: {name}");
                }
            }
        }
    }
}

#[test]
fn logs_are_taken_as_the_current_contract_sends_them() {
    let contract: Value = serde_json::from_str(CONTRACT).unwrap();
    let (ours, path) = (
        ours(),
        "/api/v1/workspaces/{workspace_id}/runs/{run_id}/logs",
    );
    let of = |document: &Value| {
        let operation = &document["paths"][path]["post"];
        let request = schema(document, &operation["requestBody"]);
        let answer = schema(document, &operation["responses"]["200"]);
        serde_json::json!([names(request), required(request), required(answer)])
    };
    assert_eq!(of(&contract), of(&ours));
}

#[test]
fn the_contracts_examples_are_read() {
    macro_rules! example {
        ($name:literal) => {
            include_str!(concat!("../../../tests/captures/fixtures/", $name, ".json"))
        };
    }
    let started: TaskStarted = serde_json::from_str(example!("task_started_request")).unwrap();
    assert_eq!(started.attempt_id.as_deref(), Some("att-123"));
    let heartbeat: TaskHeartbeat = serde_json::from_str(example!("heartbeat_request")).unwrap();
    assert_eq!(heartbeat.progress_pct, Some(45));
    let answer: HeartbeatAnswer = serde_json::from_str(example!("heartbeat_response")).unwrap();
    assert!(answer.acknowledged && !answer.should_cancel);
    let completed: TaskCompleted =
        serde_json::from_str(example!("task_completed_request")).unwrap();
    let ended = crate::convert::ended(&completed).unwrap();
    assert!(matches!(ended.outcome, Outcome::Failed(_)));
    assert_eq!(ended.meter.cpu_us, 12_000);
    let error: CallbackError = serde_json::from_str(example!("callback_error_payload")).unwrap();
    assert_eq!(error.expected_attempt_id.as_deref(), Some("att-123"));
    for text in [
        example!("worker_dispatch_envelope"),
        example!("worker_dispatch_envelope_legacy_snake_case"),
    ] {
        let envelope: EnvelopeIn = serde_json::from_str(text).unwrap();
        assert_eq!(envelope.task_key, "analytics.daily_sales");
        assert_eq!(envelope.callback_base_url, "https://callbacks.example");
    }
}
