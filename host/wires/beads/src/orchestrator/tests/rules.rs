//! The rules, one test each.

use host_core::failure::FailureKind;
use host_core::outcome::Outcome;
use host_core::port::lease::End;
use host_wire_kit::session::{Link, Session as _};
use serde_json::{Value, json};

use super::super::Event;
use super::fixture::{Bench, TIMEOUT_MS, granted, job};

/// Returns the outcome of the end of a lease.
fn outcome(reported: &End) -> &Outcome {
    match reported {
        End::Outcome(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

#[test]
fn ready_is_answered_with_a_task_or_wait() {
    let mut bench = Bench::new(0);
    bench.ready(1);
    assert_eq!(bench.asks[0].1, 0);
    bench.answer();
    // The wall clock is a second ahead of host time.
    let timestamp = 1_733_423_457.789;
    let wait =
        json!({"type": "WAIT", "worker_id": "W1", "timestamp": timestamp, "wait_seconds": 30});
    assert_eq!(bench.sent(1), [wait]);
    bench.jobs.push_back(7);
    bench.ready(1);
    bench.answer();
    let task = json!({
        "type": "TASK", "worker_id": "W1", "timestamp": timestamp,
        "issue_id": job(7).to_string(), "priority": 2, "title": "issue 7",
    });
    assert_eq!(bench.sent(1), [task]);
}

#[test]
fn done_completes_and_is_not_answered() {
    let mut bench = Bench::new(0);
    bench.busy(1, 7);
    bench.done(1, 7);
    assert_eq!(bench.types(1), [] as [&str; 0]);
    let Outcome::Completed { result } = outcome(&bench.reported[0].1) else {
        panic!("it completes");
    };
    let result: Value = serde_json::from_str(result.as_ref().unwrap().as_str()).unwrap();
    assert_eq!(result, json!({"duration_ms": 12, "worker_id": "W1"}));
    bench.busy(1, 8);
    bench.close(1);
    bench.check_quiet();
}

#[test]
fn failed_is_an_attempt_that_may_be_retried() {
    let mut bench = Bench::new(0);
    bench.busy(1, 7);
    bench.failed(1, 7, "command not found");
    assert_eq!(bench.types(1), [] as [&str; 0]);
    let Outcome::Failed(failure) = outcome(&bench.reported[0].1) else {
        panic!("it fails");
    };
    assert_eq!(failure.message, "command not found");
    assert!(failure.is_retryable());
}

#[test]
fn a_task_goes_back_when_its_worker_is_gone_or_ready_again() {
    let mut bench = Bench::new(0);
    bench.busy(1, 7);
    bench.close(1);
    assert!(matches!(bench.reported[..], [(7, End::Lost(_))]));
    bench.busy(2, 7);
    bench.ready(2);
    assert!(matches!(bench.reported[1], (7, End::Lost(_))));
    assert_eq!(bench.asks.len(), 1, "and it is given another one");
    bench.answer();
    assert_eq!(bench.types(2), ["WAIT"]);
    bench.close(2);
    bench.check_quiet();
}

#[test]
fn an_end_of_a_task_that_the_worker_does_not_hold_gets_wait_and_changes_nothing() {
    let mut bench = Bench::new(10_000);
    bench.busy(1, 7);
    bench.busy(2, 8);
    // Another worker's task, no task at all, a task of another name.
    bench.done(2, 7);
    bench.failed(2, 9, "no");
    bench.open(3);
    bench.done(3, 7);
    assert_eq!(bench.types(2), ["WAIT", "WAIT"]);
    assert_eq!(bench.types(3), ["WAIT"]);
    assert_eq!(bench.reported, []);
    assert_eq!(bench.counted, ["E_UNEXPECTED"; 3]);
    bench.done(1, 7);
    bench.done(1, 7);
    assert_eq!(bench.types(1), ["WAIT"], "the second one comes too late");
    assert_eq!(bench.reported.len(), 1);
    // WAIT also answers a held READY.
    bench.ready(3);
    bench.done(3, 7);
    assert_eq!(bench.types(3), ["WAIT"]);
    assert!(bench.asks.is_empty());
}

#[test]
fn ready_may_be_held_and_is_asked_for_once() {
    let mut bench = Bench::new(10_000);
    bench.ready(1);
    bench.ready(1);
    assert_eq!(bench.asks.len(), 1);
    assert_eq!(bench.asks[0].1, 10_000);
    bench.pass_ms(10_000);
    bench.answer();
    assert_eq!(bench.types(1), ["WAIT"]);
    bench.ready(1);
    bench.close(1);
    bench.check_quiet();
}

#[test]
fn a_worker_that_is_held_while_the_host_stops_is_not_sent_to_sleep() {
    let mut bench = Bench::new(10_000);
    for link in [1, 2] {
        bench.ready(link);
        bench.pass_ms(2_000);
        bench.answer();
        bench.ready(link);
        assert_eq!(
            bench.types(link),
            [] as [&str; 0],
            "the host has no more tasks, early"
        );
    }
    bench.pass_ms(6_000);
    assert_eq!(
        bench.types(1),
        ["WAIT"],
        "but it is not held longer than configured"
    );
    bench.say(Event::Stop);
    assert_eq!(bench.types(2), ["SHUTDOWN"]);
    bench.close(1);
    bench.close(2);
    bench.check_quiet();
}

#[test]
fn a_lease_that_comes_after_its_worker_is_gone_never_began() {
    let mut bench = Bench::new(10_000);
    bench.ready(1);
    let (ask, _) = bench.asks[0];
    bench.close(1);
    bench.say(Event::Answered(ask, Some(granted(7, 1))));
    assert_eq!(bench.reported, [(0, End::NoRoom)]);
}

#[test]
fn a_cancel_ends_the_job_after_its_grace_and_a_later_end_gets_wait() {
    let mut bench = Bench::new(0);
    bench.busy(1, 7);
    let lease = bench.lease(7);
    bench.say(Event::Cancelled {
        lease,
        grace_ms: 500,
    });
    bench.say(Event::Cancelled {
        lease,
        grace_ms: 900,
    });
    bench.pass_ms(499);
    assert_eq!(bench.reported, []);
    bench.pass_ms(1);
    let cancelled = Outcome::Cancelled { partial: None };
    assert_eq!(bench.reported, [(7, End::Outcome(cancelled))]);
    assert!(
        bench.session.health()[0]
            .doing
            .as_ref()
            .unwrap()
            .contains("may still work")
    );
    bench.done(1, 7);
    assert_eq!(bench.types(1), ["WAIT"]);
    assert_eq!(bench.counted, [] as [&str; 0], "the worker could not know");
    assert!(bench.closed.is_empty());
    bench.busy(1, 8);
    bench.done(1, 8);
    bench.check_quiet();
}

#[test]
fn what_is_done_within_the_grace_counts() {
    let mut bench = Bench::new(0);
    bench.busy(1, 7);
    let lease = bench.lease(7);
    bench.say(Event::Cancelled {
        lease,
        grace_ms: 500,
    });
    bench.done(1, 7);
    bench.pass_ms(1_000);
    assert!(matches!(
        outcome(&bench.reported[0].1),
        Outcome::Completed { .. }
    ));
    assert_eq!(bench.reported.len(), 1);
    bench.check_quiet();
}

#[test]
fn a_task_that_takes_too_long_ends_with_its_connection() {
    let mut bench = Bench::new(0);
    bench.busy(1, 7);
    bench.pass_ms(TIMEOUT_MS - 1);
    assert_eq!(bench.reported, []);
    bench.pass_ms(1);
    let Outcome::Failed(failure) = outcome(&bench.reported[0].1) else {
        panic!("its time is over");
    };
    assert_eq!(failure.kind, FailureKind::TimedOut);
    assert_eq!(bench.closed, [Link(1)]);
    bench.close(1);
    assert_eq!(bench.reported.len(), 1);
    bench.check_quiet();
}

#[test]
fn a_lease_that_is_revoked_is_forgotten() {
    let mut bench = Bench::new(0);
    bench.busy(1, 7);
    let lease = bench.lease(7);
    bench.say(Event::Revoked { lease });
    bench.say(Event::Revoked { lease });
    bench.done(1, 7);
    assert_eq!(bench.types(1), ["WAIT"]);
    assert_eq!(bench.reported, []);
    bench.check_quiet();
}

#[test]
fn a_host_that_stops_tells_all_workers_and_takes_their_ends() {
    let mut bench = Bench::new(10_000);
    bench.busy(1, 7);
    bench.busy(2, 8);
    bench.ready(3);
    bench.open(4);
    bench.say(Event::Stop);
    assert!(bench.asks.is_empty());
    let shutdown = bench.sent(3).remove(0);
    assert_eq!(shutdown["type"], "SHUTDOWN");
    assert_eq!(shutdown["reason"], "user_requested");
    for link in [1, 2, 4] {
        assert_eq!(bench.types(link), ["SHUTDOWN"]);
    }
    bench.done(1, 7);
    bench.ready(1);
    assert_eq!(bench.types(1), ["SHUTDOWN"], "again, and no task");
    bench.close(1);
    bench.close(3);
    bench.open(5);
    assert_eq!(bench.closed, [Link(5)]);
    assert!(!bench.session.is_idle());
    bench.say(Event::Cut);
    assert_eq!(bench.closed, [Link(5), Link(2), Link(4), Link(5)]);
    for link in [2, 4, 5] {
        bench.close(link);
    }
    assert_eq!(bench.reported.len(), 2);
    assert!(matches!(bench.reported[1], (8, End::Lost(_))));
    assert!(bench.session.is_idle());
}

#[test]
fn a_hundred_bad_messages_within_ten_seconds_end_a_connection() {
    let mut bench = Bench::new(0);
    bench.open(1);
    for _ in 0..99 {
        bench.receive(1, "nonsense");
    }
    bench.pass_ms(10_001);
    for _ in 0..99 {
        bench.receive(1, "nonsense");
    }
    assert!(bench.closed.is_empty());
    bench.receive(1, "nonsense");
    assert_eq!(bench.closed, [Link(1)]);
    assert_eq!(
        bench
            .counted
            .iter()
            .filter(|code| **code == "E_JSON")
            .count(),
        199
    );
    assert_eq!(bench.counted.last(), Some(&"E_ABUSE"));
    let shutdown = bench.sent(1).remove(0);
    assert_eq!(
        (&shutdown["type"], &shutdown["reason"]),
        (&json!("SHUTDOWN"), &json!("error"))
    );
}

#[test]
fn workers_are_called_as_they_call_themselves_within_limits() {
    let long = "x".repeat(64);
    let too_long = "x".repeat(65);
    #[rustfmt::skip]
    let table = [
        ("W1", "W1", 0), ("builder-7", "builder-7", 0), (long.as_str(), long.as_str(), 0),
        ("W1; rm -rf \u{1b}[31m\n", "W1; rm -rf \u{1b}[31m\n", 0), ("", "W1", 1), (too_long.as_str(), "W1", 1),
    ];
    for (called, answered, refused) in table {
        let mut bench = Bench::new(0);
        bench.open(1);
        bench.receive(
            1,
            &json!({"type": "READY", "worker_id": called}).to_string(),
        );
        bench.answer();
        assert_eq!(bench.sent(1)[0]["worker_id"], answered);
        assert_eq!(bench.counted, vec!["E_FIELD_RANGE"; refused]);
        bench.receive(
            1,
            &json!({"type": "HEARTBEAT", "worker_id": called}).to_string(),
        );
        assert_eq!(bench.counted, vec!["E_FIELD_RANGE"; 2 * refused]);
        assert_eq!(bench.notes, refused, "it is noted once");
    }
}

#[test]
fn connections_of_one_name_are_workers_of_their_own() {
    let mut bench = Bench::new(0);
    bench.jobs.extend([7, 8]);
    for link in [1, 2] {
        bench.open(link);
        bench.receive(link, r#"{"type":"READY","worker_id":"W1"}"#);
        bench.answer();
        assert_eq!(bench.types(link), ["TASK"]);
    }
    bench.done(1, 8);
    assert_eq!(bench.types(1), ["WAIT"]);
    bench.close(1);
    assert!(matches!(bench.reported[..], [(7, End::Lost(_))]));
    let health = bench.session.health();
    let shown: Vec<_> = health
        .iter()
        .map(|it| (it.name.as_str(), it.in_flight))
        .collect();
    assert_eq!(shown, [("beads/2", 1)]);
    assert_eq!(health[0].doing, Some(format!("W1 works on {}", job(8))));
    bench.open(3);
    assert_eq!(
        bench.session.health()[0].name,
        "beads/1",
        "a number is used again"
    );
}

#[test]
fn heartbeats_and_progress_are_accepted_and_change_nothing() {
    let mut bench = Bench::new(0);
    bench.busy(1, 7);
    bench.receive(1, r#"{"type":"HEARTBEAT","worker_id":"W1"}"#);
    bench.receive(1, r#"{"type":"PROGRESS","worker_id":"W1","percent":50}"#);
    assert_eq!(bench.types(1), [] as [&str; 0]);
    assert_eq!((bench.reported.len(), bench.counted.len()), (0, 0));
    bench.done(1, 7);
    assert_eq!(bench.reported.len(), 1);
}
