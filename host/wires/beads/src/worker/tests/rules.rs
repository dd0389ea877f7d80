//! The rules, one test each.

use host_core::outcome::Outcome;
use host_core::port::Stop;
use host_wire_kit::session::Session as _;
use serde_json::{Value, json};

use super::fixture::{Bench, done, failed, setup};
use crate::frame::Dialect;
use crate::worker::{Call, Event};

#[test]
fn a_task_is_executed_and_its_end_is_followed_by_ready() {
    let mut bench = Bench::connected(false);
    bench.task("b-1");
    let (_, job) = &bench.started[0];
    assert_eq!(
        (job.external_id.as_str(), job.handler.as_str()),
        ("b-1", "tidy")
    );
    let params: Value = serde_json::from_str(job.params.as_str()).unwrap();
    assert_eq!(
        params,
        json!({"issue_id": "b-1", "title": "a title", "priority": 2})
    );
    bench.pass_ms(250);
    bench.end(done());
    let sent = bench.sent();
    assert_eq!(
        sent[0],
        json!({"type": "DONE", "worker_id": "W1", "timestamp": 1_733_423_457.039, "issue_id": "b-1", "duration_ms": 250})
    );
    assert_eq!(sent[1]["type"], "READY");
    bench.task("b-2");
    bench.end(failed("command not found"));
    let sent = bench.sent();
    assert_eq!(
        (&sent[0]["type"], &sent[0]["error"]),
        (&json!("FAILED"), &json!("command not found"))
    );
    assert_eq!(sent[1]["type"], "READY");
    bench.task("b-3");
    bench.end(None::<Outcome>);
    assert!(
        bench.sent()[0]["error"]
            .as_str()
            .unwrap()
            .contains("no room")
    );
    bench.task("b-4");
    bench.end(failed(""));
    assert_eq!(bench.sent()[0]["error"], "user_error: no message");
    assert!(bench.session.is_idle() && bench.calls.is_empty());
}

#[test]
fn wait_is_left_at_once_for_a_task_or_shutdown() {
    let mut bench = Bench::connected(false);
    let wait = json!({"type": "WAIT", "worker_id": "W1", "wait_seconds": 30});
    bench.receive(&wait);
    bench.pass_ms(29_999);
    assert_eq!(bench.types(), [] as [&str; 0]);
    bench.pass_ms(1);
    assert_eq!(bench.types(), ["READY"]);
    bench.receive(&wait);
    bench.task("b-1");
    assert_eq!(bench.started.len(), 1);
    bench.pass_ms(60_000);
    assert_eq!(
        bench.types(),
        [] as [&str; 0],
        "it does not ask while it works"
    );
    bench.end(done());
    assert_eq!(bench.types(), ["DONE", "READY"]);
    bench.receive(&wait);
    bench.receive(&json!({"type": "SHUTDOWN", "worker_id": "W1", "reason": "idle_timeout"}));
    assert_eq!((bench.closed, bench.session.was_shut_down()), (1, true));
    bench.pass_ms(60_000);
    assert_eq!(bench.types(), [] as [&str; 0]);
}

#[test]
fn waits_are_clamped() {
    #[rustfmt::skip]
    let table = [(json!(1), 1_000), (json!(0), 100), (json!(-5), 100), (json!(1e9), 3_600_000), (json!(null), 30_000), (json!("x"), 30_000)];
    for (seconds, ms) in table {
        let mut bench = Bench::connected(false);
        bench.receive(&json!({"type": "WAIT", "worker_id": "W1", "wait_seconds": seconds}));
        bench.pass_ms(ms - 1);
        assert_eq!(bench.types(), [] as [&str; 0], "{seconds}");
        bench.pass_ms(1);
        assert_eq!(bench.types(), ["READY"], "{seconds}");
    }
}

#[test]
fn a_second_task_is_refused_while_one_runs() {
    let mut bench = Bench::connected(false);
    bench.task("b-1");
    bench.task("b-2");
    let sent = bench.sent();
    assert_eq!(sent.len(), 1, "and it is not ready");
    assert_eq!(
        (&sent[0]["type"], &sent[0]["issue_id"], &sent[0]["error"]),
        (&json!("FAILED"), &json!("b-2"), &json!("busy"))
    );
    assert_eq!(bench.counted, ["E_BUSY"]);
    bench.end(done());
    assert_eq!(bench.sent()[0]["issue_id"], "b-1");
}

#[test]
fn shutdown_stops_the_guest_and_reopens_the_issue_before_the_end() {
    let mut bench = Bench::connected(true);
    bench.task("b-1");
    assert_eq!(bench.called(Ok(())), (Call::Claim, "b-1".to_owned()));
    bench.receive(&json!({"type": "SHUTDOWN", "worker_id": "W1", "reason": "user_requested"}));
    assert_eq!(bench.stopped[0].1, Stop::ShuttingDown);
    assert_eq!(bench.closed, 0, "the guest still runs");
    // Even a guest that has just finished is not reported.
    bench.end(done());
    assert_eq!(bench.closed, 0);
    assert_eq!(bench.called(Ok(())), (Call::Reopen, "b-1".to_owned()));
    assert_eq!(bench.closed, 1);
    assert_eq!(bench.types(), [] as [&str; 0]);
    assert!(bench.session.is_idle());
}

#[test]
fn a_host_that_stops_does_as_shutdown_does() {
    let mut bench = Bench::connected(false);
    bench.task("b-1");
    bench.say(Event::Stop);
    assert_eq!((bench.stopped.len(), bench.closed), (1, 0));
    bench.end(failed("stopped"));
    assert_eq!((bench.closed, bench.session.was_shut_down()), (1, false));
    assert_eq!(bench.types(), [] as [&str; 0]);
}

#[test]
fn the_end_of_the_connection_stops_the_guest_and_the_next_one_begins_anew() {
    let mut bench = Bench::connected(true);
    bench.task("b-1");
    bench.called(Ok(()));
    bench.close();
    assert_eq!(bench.stopped[0].1, Stop::Disconnected);
    assert!(!bench.session.is_idle());
    bench.end(failed("stopped"));
    assert_eq!(bench.called(Ok(())), (Call::Reopen, "b-1".to_owned()));
    assert!(bench.session.is_idle());
    bench.open();
    assert_eq!(bench.types(), ["READY"]);
    bench.task("b-2");
    assert_eq!(bench.called(Ok(())), (Call::Claim, "b-2".to_owned()));
    assert_eq!(bench.started.len(), 2);
}

#[test]
fn the_program_is_called_as_the_document_says() {
    let mut bench = Bench::connected(true);
    bench.task("b-1");
    assert!(bench.started.is_empty(), "the claim comes first");
    assert_eq!(bench.called(Ok(())), (Call::Claim, "b-1".to_owned()));
    bench.end(done());
    assert_eq!(bench.types(), [] as [&str; 0], "the close comes first");
    assert_eq!(bench.called(Ok(())), (Call::Close, "b-1".to_owned()));
    assert_eq!(bench.types(), ["DONE", "READY"]);
    bench.task("b-2");
    bench.called(Ok(()));
    bench.end(failed("no luck"));
    assert_eq!(bench.called(Ok(())), (Call::Reopen, "b-2".to_owned()));
    assert_eq!(bench.sent()[0]["error"], "no luck");
}

#[test]
fn a_program_that_fails_fails_the_task() {
    let mut bench = Bench::connected(true);
    bench.task("b-1");
    bench.called(Err("exit status: 3"));
    assert_eq!(bench.called(Err("too")), (Call::Reopen, "b-1".to_owned()));
    assert_eq!(
        bench.sent()[0]["error"],
        "Failed to claim task: exit status: 3"
    );
    assert!(bench.started.is_empty());
    bench.task("b-2");
    bench.called(Ok(()));
    bench.end(done());
    bench.called(Err("exit status: 4"));
    assert_eq!(bench.called(Ok(())), (Call::Reopen, "b-2".to_owned()));
    assert_eq!(
        bench.sent()[0]["error"],
        "Failed to close task: exit status: 4"
    );
}

#[test]
fn a_stop_while_the_program_claims_undoes_the_claim() {
    let mut bench = Bench::connected(true);
    bench.task("b-1");
    bench.close();
    bench.called(Ok(()));
    assert!(bench.started.is_empty() && bench.stopped.is_empty());
    assert_eq!(bench.called(Ok(())), (Call::Reopen, "b-1".to_owned()));
    assert!(bench.session.is_idle());
}

#[test]
fn ids_that_a_program_could_misread_are_refused() {
    for issue_id in [
        "",
        "-rf",
        "--status=closed",
        "a\nb",
        "a\0b",
        &"x".repeat(257),
    ] {
        let mut bench = Bench::connected(true);
        bench.task(issue_id);
        let sent = bench.sent();
        assert_eq!(sent[0]["issue_id"], issue_id);
        assert!(
            sent[0]["error"].as_str().unwrap().starts_with("issue_id"),
            "{}",
            sent[0]
        );
        assert_eq!(sent[1]["type"], "READY");
        assert_eq!(bench.counted, ["E_FIELD_RANGE"]);
        assert!(bench.calls.is_empty() && bench.started.is_empty());
    }
    for issue_id in ["a b; rm -rf /", "../x", "*", "$(id)", "ü"] {
        let mut bench = Bench::connected(true);
        bench.task(issue_id);
        assert_eq!(bench.called(Ok(())), (Call::Claim, issue_id.to_owned()));
    }
}

#[test]
fn an_answer_that_cannot_be_read_counts_as_wait() {
    let mut bench = Bench::connected(false);
    bench.receive(&json!({"type": "TASK", "worker_id": "W1", "priority": 1}));
    bench.receive(&json!({"type": "READY", "worker_id": "W1"}));
    bench.receive(&json!({"type": "PAUSE"}));
    assert_eq!(
        bench.counted,
        ["E_FIELD_TYPE", "E_DIRECTION", "E_UNKNOWN_TYPE"]
    );
    bench.pass_ms(30_000);
    assert_eq!(bench.types(), ["READY"]);
    bench.task("b-1");
    bench.receive(&json!([]));
    bench.pass_ms(60_000);
    assert_eq!(bench.types(), [] as [&str; 0]);
}

#[test]
fn it_answers_in_the_dialect_of_its_orchestrator() {
    let mut bench = Bench::new(setup(false, Dialect::Framed));
    bench.receive_framed(
        &json!({"type": "TASK", "worker_id": "W9", "issue_id": "b-1", "priority": 1, "title": "t"}),
    );
    bench.end(done());
    assert_eq!(
        bench.sent()[0]["worker_id"],
        "W9",
        "it is named by its orchestrator"
    );
    let mut bench = Bench::new(setup(false, Dialect::Framed));
    bench.task("b-1");
    bench.end(done());
    assert_eq!(bench.sent()[0]["worker_id"], "W1");
}
