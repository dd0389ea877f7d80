//! One test for each rule.

use host_core::failure::FailureKind;
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_core::port::{End, Tag};
use host_wire_kit::session::{Link, Session as _};
use serde_json::{Value, json};

use super::super::PoolEvent;
use super::fixture::{Bench, assignment, config, response};
use crate::config::{Dialect, Source};

pub(super) fn completed(result: u64) -> End {
    let result = Some(JsonText(result.to_string()));
    End::Outcome(Outcome::Completed { result })
}

pub(super) fn failure_kind(end: &End) -> Option<FailureKind> {
    match end {
        End::Outcome(Outcome::Failed(failure)) => Some(failure.kind),
        _ => None,
    }
}

#[test]
fn a_request_has_all_that_real_runners_insist_on() {
    for (dialect, correlated) in [(Dialect::Current, true), (Dialect::Documented, false)] {
        let mut bench = Bench::up(1, 1, dialect);
        bench.start(1, 30_000);
        let link = bench.last_link();
        let mut expected = json!({"type": "request", "payload": {
            "protocol_version": "2", "request_id": "r1", "job_id": "j1", "function_name": "echo",
            "params": {"a": 1},
            "context": {
                "job_id": "j1", "attempt": 1, "enqueue_time": "2025-11-13T02:13:20.000Z",
                "queue_name": "default", "deadline": "2025-11-13T02:13:50.000Z",
                "trace_context": null, "worker_id": "host"
            }
        }});
        if correlated {
            expected["payload"]["context"]["correlation_context"] = Value::Null;
        }
        assert_eq!(bench.written(link), [expected]);
        bench.handle_success(link, 1);
        assert_eq!(bench.ended, [(Tag(1), completed(1))]);
        bench.check_quiet();
    }
}

#[test]
fn the_attributes_of_a_job_are_its_correlation_context() {
    for dialect in [Dialect::Current, Dialect::Documented] {
        let mut bench = Bench::up(1, 1, dialect);
        let mut assignment = assignment(1, 30_000);
        assignment.attributes = [
            ("tenant", "t"),
            ("correlation.order", "7"),
            ("order", "another"),
            ("long", &"x".repeat(33_000)),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .to_vec();
        bench.handle_event(PoolEvent::Start(Tag(1), Box::new(assignment)));
        let link = bench.last_link();
        let sent = &bench.written(link)[0]["payload"]["context"];
        let expected = match dialect {
            Dialect::Current => Some(json!({"order": "7", "tenant": "t"})),
            Dialect::Documented => None,
        };
        assert_eq!(sent.get("correlation_context").cloned(), expected);
    }
}

#[test]
fn the_documented_dialect_has_a_connection_for_each_request() {
    let mut bench = Bench::up(1, 2, Dialect::Documented);
    bench.start(1, 30_000);
    bench.start(2, 30_000);
    assert_eq!(bench.log, ["connect 0 as 1", "connect 0 as 2"]);
    let (first, second) = (Link(1), Link(2));
    // An answer on the wrong connection is ignored.
    bench.handle_success(second, 1);
    assert_eq!(bench.counted, ["E_OUTCOME_UNKNOWN"]);
    bench.handle_success(second, 2);
    bench.handle_success(first, 1);
    assert_eq!(bench.log[2..], ["close 2", "close 1"]);
    assert_eq!(
        bench.ended,
        [(Tag(2), completed(2)), (Tag(1), completed(1))]
    );
    bench.check_quiet();
}

#[test]
fn capacity_is_kept_and_shared_evenly() {
    let mut bench = Bench::up(2, 2, Dialect::Current);
    for tag in 0..4 {
        bench.start(tag, 30_000);
        assert_eq!(bench.free, usize::try_from(3 - tag).unwrap());
    }
    bench.start(4, 30_000);
    assert_eq!(bench.ended, [(Tag(4), End::NoRoom)]);
    let (a, b) = (bench.links[0].1, bench.links[1].1);
    assert_eq!((bench.written(a).len(), bench.written(b).len()), (2, 2));
    bench.handle_success(a, 2);
    bench.handle_success(a, 0);
    assert_eq!(bench.free, 2);
    let huge = Bench::up(1, 64, Dialect::Current);
    assert_eq!(huge.free, 64, "never more on one connection");
}

#[test]
fn an_answer_to_the_cancel_of_a_timeout_spares_the_runner() {
    let mut bench = Bench::up(1, 1, Dialect::Current);
    bench.start(0, 1_000);
    bench.pass_ms(1_500);
    bench.handle_success(bench.links[0].1, 0);
    let (_, end) = &bench.ended[0];
    let End::Outcome(Outcome::Failed(failure)) = end else {
        panic!("{end:?}");
    };
    assert_eq!(
        failure.kind,
        FailureKind::TimedOut,
        "the deadline was first"
    );
    assert!(!failure.is_retryable());
    assert_eq!(bench.free, 1);
    bench.pass_ms(60_000);
    assert!(!bench.log.iter().any(|line| line.starts_with("kill")));
}

#[test]
fn a_cancel_is_answered_by_the_runner_or_by_us() {
    let mut bench = Bench::up(1, 4, Dialect::Current);
    let main = bench.links[0].1;
    for tag in 0..4 {
        bench.start(tag, 60_000);
        bench.cancel(tag, if tag == 3 { 0 } else { 500 });
        let sent = bench.written(bench.last_link());
        assert_eq!(sent[0]["payload"]["hard_kill"], tag == 3);
    }
    bench.cancel(0, 500);
    assert_eq!(bench.links.len(), 5, "the same again is not sent again");
    bench.cancel(0, 0);
    assert_eq!(bench.links.len(), 6, "without grace is");
    let error = json!({"status": "error", "error": {"type": "cancelled", "message": "m"}});
    bench.handle_message(main, &response(0, &error));
    bench.handle_success(main, 1);
    let cancelled = End::Outcome(Outcome::Cancelled { partial: None });
    assert_eq!(
        bench.ended,
        [(Tag(0), cancelled), (Tag(1), completed(1))],
        "what was finished is finished"
    );
    bench.pass_ms(1_000);
    assert_eq!(bench.ended.len(), 3);
    bench.pass_ms(500);
    for (_, end) in &bench.ended[2..] {
        assert_eq!(failure_kind(end), Some(FailureKind::CancelTimeout));
    }
    assert_eq!(bench.log.last().unwrap(), "kill 0 after 5000");
    bench.check_quiet();
}

#[test]
fn a_cancel_that_may_have_overtaken_its_request_is_sent_again() {
    let mut bench = Bench::up(1, 1, Dialect::Current);
    bench.start(0, 60_000);
    bench.cancel(0, 500);
    let mut sent_at_ms = Vec::new();
    for ms in 0..1_500 {
        for (_, link) in bench.links.clone() {
            let written = bench.written(link);
            if written.iter().any(|message| message["type"] == "cancel") {
                sent_at_ms.push(ms);
            }
        }
        assert_eq!(bench.ended, [], "{ms}");
        bench.pass_ms(1);
    }
    assert_eq!(sent_at_ms, [0, 100, 300, 700]);
    assert_eq!(
        failure_kind(&bench.ended[0].1),
        Some(FailureKind::CancelTimeout)
    );
    bench.check_quiet();
}

#[test]
fn what_was_not_sent_is_cancelled_at_once() {
    let mut bench = Bench::up(1, 1, Dialect::Documented);
    bench.listening = true;
    let assignment = Box::new(assignment(0, 1_000));
    // The connection is requested but not open yet.
    let mut actions = host_wire_kit::session::Actions::default();
    let at = host_wire_kit::session::Moment {
        now: bench.now,
        wall: bench.now,
    };
    let event = PoolEvent::Start(Tag(0), assignment);
    bench.pool.on_event(at, event, &mut actions);
    bench.cancel(0, 500);
    let cancelled = End::Outcome(Outcome::Cancelled { partial: None });
    assert_eq!(bench.ended, [(Tag(0), cancelled)]);
    bench.check_quiet();
}

#[test]
fn a_lost_connection_loses_what_is_in_flight_and_is_made_again() {
    let mut bench = Bench::up(1, 2, Dialect::Current);
    let main = bench.links[0].1;
    bench.start(0, 60_000);
    bench.start(1, 60_000);
    bench.close(main);
    bench.close(main);
    assert_eq!(bench.free, 0);
    assert!(
        bench
            .ended
            .iter()
            .all(|(_, end)| matches!(end, End::LostWithOthers { .. }))
    );
    assert_eq!(bench.ended.len(), 2);
    bench.handle_success(main, 0);
    assert_eq!(bench.ended.len(), 2);
    bench.pass_ms(20);
    assert_eq!(bench.free, 2);
    assert_ne!(bench.last_link(), main);
    bench.check_quiet();
}

#[test]
fn the_end_of_a_process_loses_what_is_in_flight_at_once() {
    for dialect in [Dialect::Current, Dialect::Documented] {
        let mut bench = Bench::up(2, 2, dialect);
        for tag in 0..3 {
            bench.start(tag, 60_000);
        }
        bench.handle_event(PoolEvent::Exited { runner: 0 });
        let lost: Vec<u64> = bench.ended.iter().map(|(tag, _)| tag.0).collect();
        assert_eq!(lost, [0, 2]);
        let (_, end) = &bench.ended[0];
        assert!(matches!(end, End::LostWithOthers { why, jobs: 2 } if why.contains("python/1")));
        assert_eq!(bench.free, 1);
    }
}

#[test]
fn a_process_that_ends_is_started_again_with_growing_waits() {
    let mut bench = Bench::new(&config(1, 1, Dialect::Current));
    bench.pass_ms(0);
    let mut waits = Vec::new();
    for _ in 0..12 {
        bench.handle_event(PoolEvent::Exited { runner: 0 });
        let launched = bench.log.len();
        let before = bench.now;
        while bench.log.len() == launched {
            bench.pass_ms(50);
        }
        waits.push(bench.now.since_ms(before));
    }
    assert_eq!(waits[..4], [100, 200, 400, 800]);
    assert_eq!(waits[9..], [30_000; 3]);
    bench.handle_event(PoolEvent::Launched { runner: 0 });
    bench.start(0, 1_000);
    bench.handle_success(bench.last_link(), 0);
    bench.handle_event(PoolEvent::Exited { runner: 0 });
    bench.log.clear();
    bench.pass_ms(100);
    assert_eq!(
        bench.log,
        ["launch 0"],
        "an answer ends the row of failures"
    );
}

#[test]
fn a_runner_that_never_listens_is_ended_after_fifteen_seconds() {
    let mut bench = Bench::new(&config(1, 1, Dialect::Current));
    bench.listening = false;
    bench.pass_ms(0);
    bench.handle_event(PoolEvent::Launched { runner: 0 });
    bench.pass_ms(14_900);
    assert!(!bench.log.iter().any(|line| line.starts_with("kill")));
    bench.pass_ms(700);
    assert_eq!(bench.log.last().unwrap(), "kill 0 after 5000");
    let tries = bench.links.len();
    assert!((30..50).contains(&tries), "{tries}");
    assert_eq!(bench.free, 0);
}

#[test]
fn an_external_runner_is_connected_to_and_never_killed() {
    let mut external = config(1, 2, Dialect::Current);
    external.source = Source::External("127.0.0.1:9000".parse().unwrap());
    let mut bench = Bench::new(&external);
    bench.listening = false;
    bench.pass_ms(60_000);
    bench.listening = true;
    bench.pass_ms(500);
    assert_eq!(bench.free, 2);
    bench.start(0, 1_000);
    let main = bench.last_link();
    bench.log.clear();
    bench.pass_ms(2_000);
    assert_eq!(failure_kind(&bench.ended[0].1), Some(FailureKind::TimedOut));
    assert!(
        bench.log.contains(&format!("close {}", main.0)),
        "{:?}",
        bench.log
    );
    bench.pass_ms(20);
    assert_eq!(bench.free, 2, "it is reconnected");
    assert!(!bench.log.iter().any(|line| line.starts_with("kill")));
    bench.check_quiet();
}

#[test]
fn what_no_runner_can_be_given_is_refused() {
    let mut bench = Bench::up(1, 1, Dialect::Current);
    let mut large = assignment(0, 1_000);
    large.params = JsonText(format!("{{\"a\":\"{}\"}}", "x".repeat(16 << 20)));
    let mut list = assignment(1, 1_000);
    list.params = JsonText("[1]".to_owned());
    let mut long = assignment(2, 1_000);
    long.job_id = "x".repeat(5_000);
    for (tag, assignment) in [large, list, long].into_iter().enumerate() {
        let tag = Tag(tag as u64);
        bench.handle_event(PoolEvent::Start(tag, Box::new(assignment)));
        let (_, end) = bench.ended.pop().unwrap();
        assert_eq!(failure_kind(&end), Some(FailureKind::InvalidParams));
    }
    assert_eq!(bench.free, 1);
    bench.check_quiet();
}

#[test]
fn a_restart_waits_for_what_is_in_flight() {
    let mut bench = Bench::up(1, 2, Dialect::Current);
    let main = bench.links[0].1;
    bench.start(0, 60_000);
    bench.handle_event(PoolEvent::Restart { runner: 0 });
    assert_eq!(bench.free, 0);
    assert_eq!(bench.log, Vec::<String>::new());
    bench.handle_success(main, 0);
    assert_eq!(bench.log, ["close 0", "kill 0 after 5000"]);
    bench.handle_event(PoolEvent::Exited { runner: 0 });
    bench.pass_ms(100);
    bench.handle_event(PoolEvent::Launched { runner: 0 });
    assert_eq!(bench.free, 2);
    bench.handle_event(PoolEvent::Restart { runner: 7 });
}

#[test]
fn a_restart_does_not_wait_for_a_runner_that_is_not_up() {
    let mut bench = Bench::up(1, 1, Dialect::Current);
    bench.listening = false;
    for _ in 0..12 {
        bench.handle_event(PoolEvent::Exited { runner: 0 });
        bench.pass_ms(30_000);
        bench.handle_event(PoolEvent::Launched { runner: 0 });
    }
    bench.log.clear();
    // The process runs but does not listen.
    bench.handle_event(PoolEvent::Restart { runner: 0 });
    assert_eq!(bench.log, ["kill 0 after 5000"]);
    bench.handle_event(PoolEvent::Exited { runner: 0 });
    bench.pass_ms(100);
    assert_eq!(bench.log.pop().unwrap(), "launch 0");
    // The process cannot be started, and its next start is far in the future.
    for _ in 0..12 {
        bench.handle_event(PoolEvent::Exited { runner: 0 });
        bench.pass_ms(30_000);
    }
    bench.handle_event(PoolEvent::Exited { runner: 0 });
    bench.pass_ms(1_000);
    bench.log.clear();
    bench.handle_event(PoolEvent::Restart { runner: 0 });
    bench.pass_ms(0);
    assert_eq!(bench.log, ["launch 0"]);
    assert_eq!(bench.pool.runners()[0].failures, 0);
}

#[test]
fn a_stop_of_the_host_ends_all() {
    let mut bench = Bench::up(2, 2, Dialect::Current);
    bench.start(0, 60_000);
    bench.handle_event(PoolEvent::Stop);
    assert_eq!(bench.free, 0);
    assert!(matches!(&bench.ended[..], [(Tag(0), End::Lost(_))]));
    assert_eq!(
        bench.log,
        [
            "close 0",
            "kill 0 after 1000",
            "close 1",
            "kill 1 after 1000"
        ]
    );
    bench.start(1, 60_000);
    assert_eq!(bench.ended[1], (Tag(1), End::NoRoom));
    assert!(!bench.pool.is_idle());
    bench.handle_event(PoolEvent::Exited { runner: 0 });
    bench.handle_event(PoolEvent::Exited { runner: 1 });
    assert!(bench.pool.is_idle());
    assert_eq!(bench.pool.wakeup(), None);
}
