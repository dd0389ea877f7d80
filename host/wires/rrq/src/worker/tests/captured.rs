//! Sends our worker what real peers sent to a runner.

use serde_json::{Value, json};

use super::fixture::{Bench, completed};
use crate::convert;
use crate::read::for_orchestrator;
use host_core::port::Stop;

const SESSION: &[u8] =
    include_bytes!("../../../tests/golden/session-0.11.1-orchestrator-pythonrunner.bin");
const PROBES: &str = include_str!("../../../tests/golden/probe-py-0.11.1.jsonl");
const PER_REQUEST: &str =
    include_str!("../../../tests/golden/session-0.9.14-connection-per-request.jsonl");

fn hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

/// Returns all frames of a capture: whether the frame goes to the orchestrator, and its payload.
pub(crate) fn frames(mut bytes: &[u8]) -> Vec<(bool, &[u8])> {
    let mut frames = Vec::new();
    while let Some((&[back, a, b, c, d], rest)) = bytes.split_first_chunk() {
        let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap();
        let (payload, rest) = rest.split_at(length);
        frames.push((back == 1, payload));
        bytes = rest;
    }
    frames
}

/// Every captured request is accepted. Our answers are written like those of the Python runner.
#[test]
fn the_python_runners_session_is_answered_alike() {
    let mut bench = Bench::connected();
    // The capture's deadlines refer to the day it was made.
    bench.now = host_core::time::Time::parse_rfc3339("2025-11-20T23:12:28Z").unwrap();
    let mut answered = 0;
    for (back, payload) in frames(SESSION) {
        if !back {
            bench.send_bytes(1, payload);
            continue;
        }
        let expected: Value = serde_json::from_slice(payload).unwrap();
        let Ok(response) = for_orchestrator(Ok(payload)) else {
            panic!("no response");
        };
        let id = response.ids.request.clone();
        let (tag, _) = bench
            .started
            .iter()
            .find(|(_, job)| job.request_id == id)
            .unwrap();
        bench.end(*tag, convert::outcome(response.verdict));
        assert_eq!(bench.answer_of(1), expected["payload"]);
        answered += 1;
    }
    assert_eq!((bench.started.len(), answered), (16, 16));
    bench.check_empty();
    let echo = &bench.started[1].1;
    assert_eq!(echo.trace.len(), 1);
    assert_eq!(echo.queue, "rrq:queue:default");
    assert!(echo.params.as_str().contains("\"count\":42"));
}

/// The probes: our worker answers like the Python runner, or explains where that closed the
/// connection.
#[test]
fn the_python_runners_probes_are_answered_alike_or_better() {
    let mut seen = 0;
    for line in PROBES.lines() {
        let probe: Value = serde_json::from_str(line).unwrap();
        let case = probe["case"].as_str().unwrap();
        if case == "65 in flight" {
            continue;
        }
        let (answers, closed) = play(&probe);
        let theirs: Vec<Value> = probe["got"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|got| serde_json::from_str(got.as_str().unwrap()).ok())
            .collect();
        let status = |answer: &Value| (answer["status"].clone(), answer["error"]["type"].clone());
        match case {
            // We refuse this as bad input; the Python runner accepts it.
            "protocol_version missing" => assert_eq!(answers[0]["error"]["code"], "E_VERSION"),
            "protocol_version 1" => {
                let message = "Unsupported protocol version";
                assert_eq!(answers[0]["error"]["message"], message);
                assert_eq!(theirs[0]["payload"]["error"]["message"], message);
            }
            // We accept this: the document requires these fields, but nothing depends on them.
            "queue_name null" => assert_eq!(answers[0]["status"], "success"),
            "params array" | "context missing" | "response to runner" => {
                assert_eq!(answers[0]["error"]["type"], "invalid_request", "{case}");
            }
            _ if theirs.is_empty() => assert!(closed, "{case}"),
            _ => {
                let ours: Vec<_> = answers.iter().map(status).collect();
                let theirs: Vec<_> = theirs.iter().map(|a| status(&a["payload"])).collect();
                assert_eq!(ours, theirs, "{case}");
            }
        }
        seen += 1;
    }
    assert_eq!(seen, 26);
}

/// Sends a probe to a new session whose executor knows `echo` and `slow`.
fn play(probe: &Value) -> (Vec<Value>, bool) {
    let mut bench = Bench::connected();
    let instant = host_core::time::Time::parse_rfc3339;
    bench.now = instant("2025-11-20T23:40:47.500Z").unwrap();
    for text in probe["sent_hex"].as_array().unwrap() {
        let text = text.as_str().unwrap();
        bench.send_stream(1, &hex(text));
    }
    for (tag, job) in bench.started.clone() {
        match job.handler.as_str() {
            "echo" => bench.end(tag, completed("{}")),
            "slow" if bench.stopped.is_empty() => {}
            "slow" => bench.end(tag, super::fixture::stopped()),
            _ => bench.end(
                tag,
                host_core::outcome::Outcome::Failed(host_core::failure::Failure::new(
                    host_core::failure::FailureKind::HandlerNotFound,
                    "no handler",
                )),
            ),
        }
    }
    bench.pass_ms(5_000);
    if bench.stopped.is_empty() && !bench.worker.runs.is_empty() {
        bench.end(bench.tag(), completed(r#"{"slept":1}"#));
    }
    (bench.answers(1), bench.closed == [1])
}

/// The documented dialect: one connection for each request, EOF as the timeout, and the cancel on a
/// later connection.
#[test]
fn an_orchestrator_of_the_documented_dialect_is_served() {
    let mut bench = Bench::new();
    for line in PER_REQUEST
        .lines()
        .take_while(|line| !line.contains("18813"))
    {
        let event: Value = serde_json::from_str(line).unwrap();
        let Some(conn) = event["conn"].as_u64() else {
            continue;
        };
        match (event["event"].as_str(), event["frame"]["type"].as_str()) {
            (Some("open"), _) => bench.open(conn),
            (Some("eof"), _) => {
                bench.answers(conn);
                bench.close(conn);
            }
            (_, Some("request")) => {
                let id = event["frame"]["req"].as_str().unwrap();
                let mut request = bench.request(id, "j");
                request["payload"]["function_name"] = event["frame"]["fn"].clone();
                bench.send(conn, &request);
                if event["frame"]["fn"] == "ok" {
                    bench.end(bench.tag(), completed("1"));
                    assert_eq!(bench.answer_of(conn)["status"], "success");
                }
            }
            (_, Some("cancel")) => bench.send(conn, &event["frame"]),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(bench.started.len(), 2);
    let hung = bench.tag();
    assert_eq!(bench.stopped, [(hung, 500, Stop::Disconnected)]);
    bench.end(hung, super::fixture::stopped());
    bench.check_empty();
}

#[test]
fn captures_are_whole() {
    let requests = frames(SESSION)
        .into_iter()
        .filter(|(back, _)| !back)
        .count();
    assert_eq!(requests, 16);
    assert_eq!(json!(PROBES.lines().count()), json!(27));
}
