//! Replays the real worker's messages of a captured session: our orchestrator must answer like the real one,
//! except once where that one answered twice.

use bytes::Bytes;
use host_core::outcome::Outcome;
use host_core::port::lease::End;
use host_wire_kit::session::{Link, Session as _};
use host_wire_kit::stream::StreamSession as _;
use serde_json::Value;

use super::super::{Event, Orchestrator};
use super::fixture::Bench;
use crate::frame::text_of;
use crate::read::{In, Kind};

const SESSION: &[u8] = include_bytes!("../../../tests/golden/session-beads-framed.bin");
const LATE_DONE: &[u8] = include_bytes!("../../../tests/golden/session-beads-late-done.bin");
const RECONNECT: &[u8] = include_bytes!("../../../tests/golden/session-beads-reconnect.bin");

/// Returns the messages of the first capture.
pub(crate) fn messages() -> Vec<(bool, Bytes)> {
    read_capture(SESSION)
}

/// Returns the messages of a capture, each with its length before it: whether the worker sent it, and its bytes.
fn read_capture(mut bytes: &[u8]) -> Vec<(bool, Bytes)> {
    let mut messages = Vec::new();
    while let Some((&[back, a, b, c, d], rest)) = bytes.split_first_chunk() {
        let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap();
        let (payload, rest) = rest.split_at(length);
        let mut frame = vec![a, b, c, d];
        frame.extend_from_slice(payload);
        messages.push((back == 1, Bytes::from(frame)));
        bytes = rest;
    }
    messages
}

#[test]
fn the_capture_is_whole() {
    let messages = messages();
    assert_eq!(messages.len(), 15);
    for (_, message) in messages {
        let value: Value = serde_json::from_slice(text_of(&message)).unwrap();
        assert_eq!(value["version"], 1);
    }
}

/// Receives a captured message. Its issue is our job with the same number.
fn receive(bench: &mut Bench, message: Bytes) {
    let In { dialect, message } = Orchestrator::read(Ok(message));
    let mut message = message.unwrap();
    if let Kind::Done(report) | Kind::Failed(report, _) = &mut message.kind {
        let number = report.issue_id.rsplit('-').next().unwrap().parse().unwrap();
        report.issue_id = super::fixture::job(number).to_string();
    }
    let message = Ok(message);
    bench.receive_in(1, In { dialect, message });
}

/// Removes what differs between sessions.
fn comparable(message: &Value) -> Value {
    let mut message = message.clone();
    for field in ["timestamp", "issue_id", "title", "priority"] {
        message.as_object_mut().unwrap().remove(field);
    }
    message
}

#[test]
fn the_real_worker_is_served() {
    let mut bench = Bench::new(0);
    bench.jobs.extend([2, 1, 3]);
    bench.open(1);
    let (mut theirs, mut ours): (Vec<Value>, Vec<Value>) = (Vec::new(), Vec::new());
    let mut ends = Vec::new();
    for (is_workers, message) in messages() {
        if !is_workers {
            let value: Value = serde_json::from_slice(text_of(&message)).unwrap();
            theirs.push(value["payload"].clone());
            continue;
        }
        receive(&mut bench, message);
        if !bench.asks.is_empty() {
            bench.answer();
        }
        ours.extend(bench.sent(1));
        ends.append(&mut bench.reported);
    }
    bench.say(Event::Stop);
    ours.extend(bench.sent(1));
    // The real one answers DONE and FAILED too, as if they were READY.
    theirs.dedup_by_key(|message| comparable(message));
    let mut once = ours.clone();
    once.dedup_by_key(|message| comparable(message));
    let comparable = |all: &[Value]| -> Vec<Value> { all.iter().map(comparable).collect() };
    assert_eq!(comparable(&once), comparable(&theirs));
    let types: Vec<_> = ours.iter().map(|it| it["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["TASK", "TASK", "TASK", "WAIT", "SHUTDOWN"]);
    assert!(ours.iter().all(|message| message["worker_id"] == "W1"));
    let [(2, failed), (1, _), (3, done)] = &ends[..] else {
        panic!("{ends:?}");
    };
    let End::Outcome(Outcome::Failed(failure)) = failed else {
        panic!("{failed:?}");
    };
    assert_eq!(failure.message, "Failed to close task");
    let End::Outcome(Outcome::Completed { result }) = done else {
        panic!("{done:?}");
    };
    assert_eq!(
        result.as_ref().unwrap().as_str(),
        r#"{"duration_ms":2019,"worker_id":"W1"}"#
    );
    bench.close(1);
    assert!(bench.session.is_idle() && !bench.closed.contains(&Link(1)));
    bench.check_quiet();
}

/// Plays the worker's part of a capture. Each request is answered before the next message, and `turn` follows each
/// message. Returns the types of our messages.
fn replay(
    bench: &mut Bench,
    capture: &[u8],
    mut turn: impl FnMut(&mut Bench, usize),
) -> Vec<String> {
    bench.open(1);
    let messages = read_capture(capture).into_iter();
    let theirs = messages.filter(|(is_workers, _)| *is_workers);
    for (n, (_, message)) in theirs.enumerate() {
        receive(bench, message);
        if !bench.asks.is_empty() {
            bench.answer();
        }
        turn(bench, n);
    }
    bench.types(1)
}

#[test]
fn a_late_done_of_the_real_worker_and_its_ready_get_one_answer() {
    let mut bench = Bench::new(0);
    bench.jobs.extend([1, 2]);
    let types = replay(&mut bench, LATE_DONE, |bench, n| {
        if n == 0 {
            let lease = bench.lease(1);
            let grace_ms = 500;
            bench.say(Event::Cancelled { lease, grace_ms });
            bench.pass_ms(grace_ms);
        }
    });
    assert_eq!(types, ["TASK", "TASK", "WAIT"], "one for each READY");
    let [(1, End::Outcome(Outcome::Cancelled { .. })), (2, done)] = &bench.reported[..] else {
        panic!("{:?}", bench.reported);
    };
    assert!(matches!(done, End::Outcome(_)), "{done:?}");
    bench.close(1);
    bench.check_quiet();
}

#[test]
fn the_two_readys_of_the_real_worker_after_it_reconnects_are_one_request() {
    let mut bench = Bench::new(0);
    bench.jobs.push_back(3);
    // It works for two seconds, and waits for one.
    let types = replay(&mut bench, RECONNECT, |bench, n| match n {
        1 => bench.pass_ms(2_000),
        3 => bench.pass_ms(1_000),
        _ => {}
    });
    assert_eq!(types, ["TASK", "WAIT", "WAIT"], "one for each request");
    let [(3, End::Outcome(_))] = &bench.reported[..] else {
        panic!("{:?}", bench.reported);
    };
    bench.close(1);
    bench.check_quiet();
}
