//! One test for each rule.

use host_core::failure::{Category, FailureKind};
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_core::port::{End, Tag};
use serde_json::{Value, json};

use super::super::PoolEvent;
use super::fixture::{Bench, assignment, config, response};
use crate::rrq::config::{Dialect, Source};
use crate::stream::{Link, Session as _};

fn completed(result: u64) -> End {
    let result = Some(JsonText(result.to_string()));
    End::Outcome(Outcome::Completed { result })
}

fn failure_kind(end: &End) -> Option<FailureKind> {
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
        bench.hear_success(link, 1);
        assert_eq!(bench.ended, [(Tag(1), completed(1))]);
        bench.check_quiet();
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
    bench.hear_success(second, 1);
    assert_eq!(bench.counted, ["E_OUTCOME_UNKNOWN"]);
    bench.hear_success(second, 2);
    bench.hear_success(first, 1);
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
    bench.hear_success(a, 2);
    bench.hear_success(a, 0);
    assert_eq!(bench.free, 2);
    let huge = Bench::up(1, 64, Dialect::Current);
    assert_eq!(huge.free, 64, "never more on one connection");
}

#[test]
fn a_hung_request_is_cancelled_then_its_runner_restarted_when_its_neighbours_are_through() {
    let mut bench = Bench::up(2, 2, Dialect::Current);
    bench.start(0, 1_000);
    bench.start(1, 60_000);
    bench.start(2, 60_000);
    let (hung, other) = (bench.links[0].1, bench.links[1].1);
    bench.pass_ms(1_000);
    let cancel = bench.last_link();
    assert_eq!(
        bench.written(cancel),
        [json!({"type": "cancel", "payload": {
            "protocol_version": "2", "job_id": "j0", "request_id": "r0", "hard_kill": false
        }})]
    );
    assert_eq!(bench.ended, []);
    bench.pass_ms(1_000);
    assert_eq!(failure_kind(&bench.ended[0].1), Some(FailureKind::TimedOut));
    assert_eq!(bench.free, 1, "the stuck runner takes nothing new");
    assert!(!bench.log.iter().any(|line| line.starts_with("kill")));
    bench.start(3, 60_000);
    assert_eq!(bench.written(other).len(), 2);
    bench.hear_success(hung, 0);
    assert_eq!(bench.counted, ["E_OUTCOME_UNKNOWN"], "late");
    bench.hear_success(hung, 2);
    assert_eq!(bench.log.last().unwrap(), "kill 0 after 5000");
    bench.hear_success(other, 1);
    bench.hear_success(other, 3);
    let outcomes: Vec<_> = bench.ended[1..].iter().map(|(tag, _)| tag.0).collect();
    assert_eq!(outcomes, [2, 1, 3], "no neighbour was failed");
    bench.say(PoolEvent::Exited { runner: 0 });
    bench.pass_ms(100);
    assert_eq!(bench.log.last().unwrap(), "launch 0");
    bench.say(PoolEvent::Launched { runner: 0 });
    assert_eq!(bench.free, 4);
    bench.check_quiet();
}

#[test]
fn an_answer_to_the_cancel_of_a_timeout_spares_the_runner() {
    let mut bench = Bench::up(1, 1, Dialect::Current);
    bench.start(0, 1_000);
    bench.pass_ms(1_500);
    bench.hear_success(bench.links[0].1, 0);
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
    bench.hear(main, &response(0, &error));
    bench.hear_success(main, 1);
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
    let mut actions = crate::stream::Actions::default();
    let at = crate::stream::Moment {
        now: bench.now,
        wall: bench.now,
    };
    let said = PoolEvent::Start(Tag(0), assignment);
    bench.pool.on_event(at, said, &mut actions);
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
            .all(|(_, end)| matches!(end, End::Lost(_)))
    );
    assert_eq!(bench.ended.len(), 2);
    bench.hear_success(main, 0);
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
        bench.say(PoolEvent::Exited { runner: 0 });
        let lost: Vec<u64> = bench.ended.iter().map(|(tag, _)| tag.0).collect();
        assert_eq!(lost, [0, 2]);
        assert!(matches!(&bench.ended[0].1, End::Lost(why) if why.contains("python/1")));
        assert_eq!(bench.free, 1);
    }
}

#[test]
fn a_process_that_ends_is_started_again_with_growing_waits() {
    let mut bench = Bench::new(&config(1, 1, Dialect::Current));
    bench.pass_ms(0);
    let mut waits = Vec::new();
    for _ in 0..12 {
        bench.say(PoolEvent::Exited { runner: 0 });
        let launched = bench.log.len();
        let before = bench.now;
        while bench.log.len() == launched {
            bench.pass_ms(50);
        }
        waits.push(bench.now.since_ms(before));
    }
    assert_eq!(waits[..4], [100, 200, 400, 800]);
    assert_eq!(waits[9..], [30_000; 3]);
    bench.say(PoolEvent::Launched { runner: 0 });
    bench.start(0, 1_000);
    bench.hear_success(bench.last_link(), 0);
    bench.say(PoolEvent::Exited { runner: 0 });
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
    bench.say(PoolEvent::Launched { runner: 0 });
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
    assert_eq!(bench.free, 2, "it is connected to anew");
    assert!(!bench.log.iter().any(|line| line.starts_with("kill")));
    bench.check_quiet();
}

#[test]
fn bad_answers_fail_their_attempt_and_no_other() {
    let error = json!({"message": "m"});
    // The runner's answer to request 0, and the code that is counted.
    let cases: Vec<(Value, Option<&str>, Option<FailureKind>)> = vec![
        (
            json!({"job_id": "x", "status": "success"}),
            Some("E_OUTCOME_JOB"),
            Some(FailureKind::UserError),
        ),
        (
            json!({"job_id": null, "status": "success"}),
            Some("E_OUTCOME_JOB"),
            Some(FailureKind::UserError),
        ),
        (
            json!({"status": "cancelled"}),
            Some("E_OUTCOME_STATUS"),
            Some(FailureKind::UserError),
        ),
        (
            json!({"status": 7}),
            Some("E_OUTCOME_STATUS"),
            Some(FailureKind::UserError),
        ),
        (
            json!({}),
            Some("E_OUTCOME_STATUS"),
            Some(FailureKind::UserError),
        ),
        (
            json!({"status": "retry", "retry_after_seconds": "soon"}),
            Some("E_FIELD_TYPE"),
            Some(FailureKind::UserError),
        ),
        (
            json!({"status": "error", "error": "text"}),
            Some("E_FIELD_TYPE"),
            Some(FailureKind::UserError),
        ),
        (
            json!({"request_id": "other", "status": "success"}),
            Some("E_OUTCOME_UNKNOWN"),
            None,
        ),
        (
            json!({"status": "success", "result": 1, "error": error}),
            None,
            None,
        ),
        (
            json!({"status": "success", "result": 1, "extra": {"a": 1}}),
            None,
            None,
        ),
    ];
    for (body, code, kind) in cases {
        let mut bench = Bench::up(1, 2, Dialect::Current);
        let main = bench.links[0].1;
        bench.start(0, 60_000);
        bench.start(1, 60_000);
        bench.hear(main, &response(0, &body));
        assert_eq!(bench.counted, code.as_slice(), "{body}");
        if let Some(kind) = kind {
            let (_, End::Outcome(Outcome::Failed(failure))) = &bench.ended[0] else {
                panic!("{body}: {:?}", bench.ended);
            };
            assert_eq!(failure.kind, kind, "{body}");
            assert_eq!(failure.category(), Category::Infrastructure);
            assert!(failure.is_retryable());
            assert_eq!(failure.code.as_deref(), code);
        }
        bench.hear_success(main, 1);
        assert_eq!(
            bench.ended.last().unwrap(),
            &(Tag(1), completed(1)),
            "{body}"
        );
        assert!(
            !bench.log.iter().any(|line| line.starts_with("close")),
            "{body}"
        );
    }
}

#[test]
fn bad_frames_end_their_connection() {
    for payload in [
        &b"{nope"[..],
        b"\xff",
        b"{\"type\":\"log\"}",
        b"{\"type\":\"response\",\"payload\":{}}",
    ] {
        let mut bench = Bench::up(2, 1, Dialect::Current);
        bench.start(0, 60_000);
        bench.start(1, 60_000);
        let (bad, good) = (bench.links[0].1, bench.links[1].1);
        bench.hear_frame(bad, payload);
        assert_eq!(bench.log, [format!("close {}", bad.0)]);
        assert!(matches!(&bench.ended[..], [(Tag(0), End::Lost(_))]));
        bench.close(bad);
        bench.hear_success(good, 1);
        assert_eq!(bench.ended.len(), 2);
        bench.check_quiet();
    }
}

#[test]
fn a_result_larger_than_a_frame_ends_its_connection() {
    let mut bench = Bench::up(1, 2, Dialect::Current);
    bench.start(0, 60_000);
    let main = bench.links[0].1;
    bench.hear_defect(main, [1, 0x10, 0, 0]);
    assert_eq!(bench.counted, ["E_FRAME_TOO_LARGE"]);
    assert_eq!(bench.log, [format!("close {}", main.0)]);
    assert!(matches!(&bench.ended[..], [(Tag(0), End::Lost(why))] if why.contains("at most")));
}

#[test]
fn other_messages_and_second_answers_change_nothing() {
    let mut bench = Bench::up(1, 2, Dialect::Current);
    let main = bench.links[0].1;
    bench.start(0, 60_000);
    let cancel = json!({"type": "cancel", "payload": {"job_id": "j0", "request_id": "r0"}});
    bench.hear(main, &cancel);
    bench.hear_success(main, 0);
    bench.hear_success(main, 0);
    assert_eq!(bench.counted, ["E_DIRECTION", "E_OUTCOME_UNKNOWN"]);
    assert_eq!(bench.ended.len(), 1);
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
        bench.say(PoolEvent::Start(tag, Box::new(assignment)));
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
    bench.say(PoolEvent::Restart { runner: 0 });
    assert_eq!(bench.free, 0);
    assert_eq!(bench.log, Vec::<String>::new());
    bench.hear_success(main, 0);
    assert_eq!(bench.log, ["close 0", "kill 0 after 5000"]);
    bench.say(PoolEvent::Exited { runner: 0 });
    bench.pass_ms(100);
    bench.say(PoolEvent::Launched { runner: 0 });
    assert_eq!(bench.free, 2);
    bench.say(PoolEvent::Restart { runner: 7 });
}

#[test]
fn a_restart_does_not_wait_for_a_runner_that_is_not_up() {
    let mut bench = Bench::up(1, 1, Dialect::Current);
    bench.listening = false;
    for _ in 0..12 {
        bench.say(PoolEvent::Exited { runner: 0 });
        bench.pass_ms(30_000);
        bench.say(PoolEvent::Launched { runner: 0 });
    }
    bench.log.clear();
    // The process runs but does not listen.
    bench.say(PoolEvent::Restart { runner: 0 });
    assert_eq!(bench.log, ["kill 0 after 5000"]);
    bench.say(PoolEvent::Exited { runner: 0 });
    bench.pass_ms(100);
    assert_eq!(bench.log.pop().unwrap(), "launch 0");
    // The process cannot be started, and its next start is far in the future.
    for _ in 0..12 {
        bench.say(PoolEvent::Exited { runner: 0 });
        bench.pass_ms(30_000);
    }
    bench.say(PoolEvent::Exited { runner: 0 });
    bench.pass_ms(1_000);
    bench.log.clear();
    bench.say(PoolEvent::Restart { runner: 0 });
    bench.pass_ms(0);
    assert_eq!(bench.log, ["launch 0"]);
    assert_eq!(bench.pool.runners()[0].failures, 0);
}

#[test]
fn a_stop_of_the_host_ends_all() {
    let mut bench = Bench::up(2, 2, Dialect::Current);
    bench.start(0, 60_000);
    bench.say(PoolEvent::Stop);
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
    bench.say(PoolEvent::Exited { runner: 0 });
    bench.say(PoolEvent::Exited { runner: 1 });
    assert!(bench.pool.is_idle());
    assert_eq!(bench.pool.wakeup(), None);
}
