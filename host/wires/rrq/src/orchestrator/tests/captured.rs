//! Compares our orchestrator with captures: it must send what the real one sent, and read what real
//! runners answered.

use host_core::failure::FailureKind;
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_core::port::{Assignment, End, Tag};
use host_core::suspicion::Suspicion;
use host_core::time::Time;
use serde_json::Value;

use super::super::PoolEvent;
use super::fixture::Bench;
use crate::config::Dialect;
use crate::read::{Message, for_worker};

const SESSION: &[u8] =
    include_bytes!("../../../tests/golden/session-0.11.1-orchestrator-pythonrunner.bin");
const PER_REQUEST: &str =
    include_str!("../../../tests/golden/session-0.9.14-connection-per-request.jsonl");

fn frames(mut bytes: &[u8]) -> Vec<(bool, &[u8])> {
    let mut frames = Vec::new();
    while let Some((&[back, a, b, c, d], rest)) = bytes.split_first_chunk() {
        let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap();
        let (payload, rest) = rest.split_at(length);
        frames.push((back == 1, payload));
        bytes = rest;
    }
    frames
}

/// Cuts the fraction of a time to milliseconds, as in host time.
fn to_ms(time: &mut Value) {
    *time = Time::parse_rfc3339(time.as_str().unwrap())
        .unwrap()
        .to_rfc3339()
        .into();
}

#[test]
fn the_real_orchestrators_requests_are_ours() {
    let mut bench = Bench::up(1, 64, Dialect::Current);
    let main = bench.last_link();
    let mut outcomes = Vec::new();
    let mut tags = std::collections::BTreeMap::new();
    for (back, payload) in frames(SESSION) {
        if back {
            bench.handle_frame(main, payload);
            outcomes.push(bench.ended.pop().expect("an answer ends its request"));
            continue;
        }
        let mut theirs: Value = serde_json::from_slice(payload).unwrap();
        let Ok(Message::Request(request)) = for_worker(Ok(payload)) else {
            panic!("no request");
        };
        let deadline = request.deadline.unwrap();
        bench.now = bench.now.max(Time(deadline.0 - 300_000));
        let tag = Tag(tags.len() as u64);
        tags.insert(tag, request.function.clone());
        let assignment = Assignment {
            request_id: request.ids.request.clone(),
            job_id: request.ids.job.clone(),
            handler: request.function.clone(),
            params: JsonText(theirs["payload"]["params"].to_string()),
            queue: request.queue.clone(),
            priority: 5,
            attempt: request.attempt,
            enqueued_at: request.enqueued_at.unwrap(),
            timeout_ms: deadline.since_ms(bench.now),
            deadline: None,
            attributes: Vec::new(),
            trace: request.trace.clone(),
            worker_id: request.worker_id.clone().unwrap(),
            suspicion: Suspicion::NONE,
        };
        bench.handle_event(PoolEvent::Start(tag, Box::new(assignment)));
        let ours = bench.written(main);
        let context = &mut theirs["payload"]["context"];
        to_ms(&mut context["enqueue_time"]);
        to_ms(&mut context["deadline"]);
        assert_eq!(ours, [theirs]);
    }
    assert_eq!((tags.len(), outcomes.len()), (16, 16));
    for (tag, end) in outcomes {
        let End::Outcome(outcome) = end else {
            panic!("{end:?}");
        };
        let kind = match &outcome {
            Outcome::Failed(failure) => Some(failure.kind),
            _ => None,
        };
        match tags[&tag].as_str() {
            "boom" | "fatal" => assert_eq!(kind, Some(FailureKind::UserError)),
            "self_timeout" | "slow" => assert_eq!(kind, Some(FailureKind::TimedOut)),
            "does_not_exist" => assert_eq!(kind, Some(FailureKind::HandlerNotFound)),
            "retry" if matches!(outcome, Outcome::Retry { .. }) => assert_eq!(
                outcome,
                Outcome::Retry {
                    reason: "retry requested".to_owned(),
                    after_ms: Some(200)
                }
            ),
            _ => assert!(matches!(outcome, Outcome::Completed { .. })),
        }
    }
    bench.check_quiet();
}

/// Checks what the capture's runner received: a probe, a request on its own connection, a request
/// that hangs, and its cancel on another connection.
#[test]
fn the_documented_dialects_connections_are_ours() {
    let theirs: Vec<String> = PER_REQUEST
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .skip(1)
        .take_while(|event| event["event"] != "start")
        .filter(|event| event["event"] != "eof" || event["conn"] != 3)
        .map(|event| {
            let what = event["event"].as_str().or(event["frame"]["type"].as_str());
            format!("{} {}", event["conn"], what.unwrap())
        })
        .collect();

    let mut bench = Bench::new(&super::fixture::config(1, 2, Dialect::Documented));
    bench.pass_ms(0);
    bench.handle_event(PoolEvent::Launched { runner: 0 });
    bench.start(0, 2_000);
    bench.handle_success(bench.last_link(), 0);
    bench.start(1, 2_000);
    bench.pass_ms(2_000);
    let mut ours = Vec::new();
    let log = std::mem::take(&mut bench.log);
    for (_, link) in bench.links.clone() {
        let conn = link.0 + 1;
        ours.push(format!("{conn} open"));
        for message in bench.written(link) {
            ours.push(format!("{conn} {}", message["type"].as_str().unwrap()));
        }
        if log.contains(&format!("close {}", link.0)) {
            ours.push(format!("{conn} eof"));
        }
    }
    assert_eq!(ours, theirs);
}
