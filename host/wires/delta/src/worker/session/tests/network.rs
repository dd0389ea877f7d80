//! What a lease over the network has beyond the document: heartbeats that wait, and the log.

use super::*;

#[test]
fn heartbeats_of_a_lease_from_the_network_may_wait_for_a_cancel() {
    let mut it = bench_in(true, &one(), Results::default());
    it.begin();
    let acts = it.receives(Kind::Ack, ACCEPTED);
    assert!(
        message(&acts)["wait_seconds"].is_null(),
        "the guest waits for its answer"
    );
    let began = it.now;
    it.receives(Kind::Heartbeat, ACCEPTED);
    let acts = it.wakes();
    assert_eq!(it.now, began, "a cancel is heard from the first instant");
    assert_eq!(message(&acts)["wait_seconds"], 20);
    let Effect::Send { timeout_ms, .. } = &acts[0] else {
        unreachable!()
    };
    assert_eq!(*timeout_ms, ANSWER_MS + 20_000);
    it.receives(Kind::Heartbeat, ACCEPTED);
    let acts = it.wakes();
    assert_eq!(it.now.since_ms(began), 20_000, "it was answered early");
    assert_eq!(message(&acts)["wait_seconds"], 20);
}

#[test]
fn an_orchestrator_that_announces_nothing_gets_what_the_document_has() {
    let mut it = bench(&one());
    it.session.mode.is_network = true;
    let mut it = it.runs();
    assert_eq!(shown(&it.guest(0, logs("one"))), [""; 0]);
    let acts = it.wakes();
    assert!(message(&acts)["wait_seconds"].is_null());
    let acts = it.guest(0, completed("1"));
    assert_eq!(message(&acts)["artifacts"], json!([]));
}

/// A lease over the network, whose first step runs.
fn network() -> Bench {
    bench_in(true, &one(), Results::default()).runs()
}

pub(super) fn logs(message: &str) -> Answer {
    let line = LogLine {
        at_ms: 0,
        level: host_core::cell::Level::Info,
        source: host_core::cell::LogSource::Stdout,
        message: message.to_owned(),
        fields: Vec::new(),
    };
    Answer::Logged {
        started_at: Time(0),
        lines: vec![line],
    }
}

const LINE: &str = "1970-01-01T00:00:00.000Z info ";

#[test]
fn what_a_guest_writes_is_sent_as_it_comes_and_before_the_end() {
    let mut it = network();
    let acts = it.guest(0, logs("one"));
    assert_eq!(
        shown(&acts),
        [format!("upload 0 {:?}", format!("{LINE}one\n"))]
    );
    assert_eq!(shown(&it.guest(0, logs("two"))), [""; 0], "one at a time");
    let first = LINE.len() as u64 + 4;
    assert_eq!(
        shown(&it.receives(Kind::Log, Response::Logged(first))),
        [""; 0]
    );
    let acts = it.guest(0, completed("1"));
    let rest = format!("upload {first} {:?}", format!("{LINE}two\n"));
    assert_eq!(shown(&acts), [rest], "the end waits");
    let acts = it.receives(Kind::Log, Response::Logged(2 * first));
    assert_eq!(shown(&acts), ["send Complete"]);
    assert_eq!(message(&acts)["status"], "SUCCEEDED");
    let log = json!([{"type": "log", "uri": "/logs/j"}]);
    assert_eq!(message(&acts)["artifacts"], log);
}

#[test]
fn an_end_does_not_wait_long_for_the_log() {
    let mut it = network();
    it.guest(0, logs("one"));
    let ended_at = it.now;
    assert_eq!(shown(&it.guest(0, completed("1"))), [""; 0]);
    loop {
        let acts = it.wakes();
        if shown(&acts).contains(&"send Complete".to_owned()) {
            break;
        }
        it.receives(Kind::Log, Response::Again);
    }
    assert_eq!(it.now.since_ms(ended_at), 5_000);
    let late = it.receives(Kind::Log, Response::Logged(9));
    assert_eq!(shown(&late), [""; 0], "no part follows the end");
    let done = it.receives(Kind::Complete, ACCEPTED);
    assert_eq!(done, [Effect::Done(Done::Reported(Status::Succeeded))]);
}

#[test]
fn an_orchestrator_that_refuses_the_log_gets_no_more_and_that_is_logged() {
    let mut it = network();
    it.guest(0, logs("one"));
    let acts = it.receives(Kind::Log, Response::Refused("404".to_owned()));
    assert_eq!(acts, [Effect::WarnOfLog("404".to_owned())]);
    assert!(!it.session.upload.is_on);
    assert_eq!(shown(&it.guest(0, logs("two"))), [""; 0]);
    assert_eq!(shown(&it.guest(0, completed("1"))), ["send Complete"]);
}

#[test]
fn a_stale_answer_to_the_log_ends_the_lease() {
    let mut it = network();
    it.guest(0, logs("one"));
    let acts = it.receives(Kind::Log, Response::Stale);
    assert_eq!(shown(&acts), ["stop 0 0 Disconnected"]);
    let mut it = network();
    it.guest(0, logs("one"));
    it.guest(0, completed("1"));
    let acts = it.receives(Kind::Log, Response::Stale);
    assert!(
        matches!(acts.as_slice(), [Effect::Done(Done::Lost(_))]),
        "{acts:?}"
    );
}
