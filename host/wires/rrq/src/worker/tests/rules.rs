//! One test for each rule, and one that mixes them all.

use host_core::failure::{Failure, FailureKind};
use host_core::outcome::Outcome;
use host_wire_kit::session::Session as _;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::fixture::{Bench, START, cancel, completed, stopped};
use crate::worker::ExecutionEnd;
use crate::worker::idle::CROWDED;
use crate::worker::{IDLE_MS, IN_FLIGHT_MAX, Rules, Worker, WorkerEvent};
use host_core::port::Stop;

#[test]
fn a_request_is_executed_and_answered_with_both_ids() {
    let mut bench = Bench::connected();
    bench.send(1, &bench.request("r", "any job, even this/.. one"));
    let (tag, job) = bench.started[0].clone();
    assert_eq!(job.external_id, "any job, even this/.. one");
    assert_eq!(job.handler.as_str(), "echo");
    assert_eq!(job.deadline, Some(START.plus_ms(60_000)));
    bench.end(tag, completed(r#"{"ok": true}"#));
    assert_eq!(
        bench.answer_of(1),
        json!({
            "job_id": "any job, even this/.. one", "request_id": "r", "status": "success",
            "result": {"ok": true}, "error": null, "retry_after_seconds": null
        })
    );
    bench.check_empty();
}

#[test]
fn a_connection_without_a_byte_is_a_health_check() {
    let mut bench = Bench::connected();
    bench.close(1);
    bench.check_empty();
    assert_eq!(bench.counted, Vec::<&str>::new());
}

#[test]
fn sixty_four_are_in_flight_and_answered_in_any_order() {
    let mut bench = Bench::connected();
    bench.open(2);
    for n in 0..IN_FLIGHT_MAX {
        bench.send(1, &bench.request(&format!("r{n}"), &format!("j{n}")));
    }
    bench.send(1, &bench.request("r64", "j64"));
    let busy = bench.answer_of(1);
    assert_eq!(busy["error"]["type"], "runner_busy");
    assert_eq!(busy["error"]["code"], "E_BUSY");
    assert_eq!(busy["request_id"], "r64");
    bench.send(2, &bench.request("r64", "j64"));
    assert_eq!(bench.started.len(), 65, "another connection has its own");
    for (tag, _) in bench.started.clone().into_iter().rev() {
        bench.end(tag, completed("null"));
    }
    let order: Vec<Value> = bench
        .answers(1)
        .iter()
        .map(|a| a["request_id"].clone())
        .collect();
    let expected: Vec<Value> = (0..64).rev().map(|n| json!(format!("r{n}"))).collect();
    assert_eq!(order, expected);
    assert_eq!(bench.answers(2).len(), 1);
    bench.check_empty();
}

#[test]
fn the_same_request_twice_runs_once_and_is_answered_twice() {
    let mut bench = Bench::connected();
    bench.open(2);
    for link in [1, 1, 2] {
        bench.send(link, &bench.request("r", "j"));
    }
    assert_eq!(bench.started.len(), 1);
    bench.close(2);
    assert_eq!(bench.stopped, []);
    bench.end(bench.tag(), completed("1"));
    let answers = bench.answers(1);
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[0], answers[1]);
    bench.check_empty();
}

#[test]
fn no_user_gets_the_result_of_another() {
    let mut bench = Bench::new();
    for (link, uid) in [(1, 1_000), (2, 1_000), (3, 1_001)] {
        bench.open_as(link, uid);
        bench.send(link, &bench.request("r", "j"));
    }
    bench.open(4);
    bench.send(4, &bench.request("r", "j"));
    assert_eq!(bench.started.len(), 3, "the second is the first again");
    bench.end(bench.started[0].0, completed("1"));
    let told = [1, 2, 3, 4].map(|link| bench.answers(link).len());
    assert_eq!(told, [1, 1, 0, 0]);
    bench.end(bench.started[1].0, completed("2"));
    bench.end(bench.started[2].0, completed("3"));
    let told = [3, 4].map(|link| bench.answer_of(link)["result"].clone());
    assert_eq!(told, [json!(2), json!(3)]);
    bench.check_empty();
}

#[test]
fn no_user_cancels_requests_of_another_unless_that_is_configured() {
    for (cancels_for_all, cancelled) in [(false, 0), (true, 4)] {
        let mut bench = Bench::new();
        bench.worker = Worker::new(Rules {
            cancels_for_all,
            ..Rules::default()
        });
        for (link, uid) in [(1, 1_000), (2, 1_001), (3, 1_000)] {
            bench.open_as(link, uid);
        }
        bench.open(4);
        bench.send(1, &bench.request("r", "j"));
        for stranger in [2, 4] {
            bench.send(stranger, &cancel("j", None, false));
            bench.send(stranger, &cancel("j", Some("r"), true));
        }
        let refused = vec!["E_CANCEL_PEER"; 4 - cancelled];
        assert_eq!(bench.counted, refused);
        assert_eq!(bench.stopped.is_empty(), !cancels_for_all);
        bench.send(3, &cancel("j", None, true));
        let ends: Vec<_> = bench.stopped.iter().map(|(_, _, why)| *why).collect();
        assert!(ends.contains(&Stop::Cancelled), "one of the same user does");
        bench.end(bench.tag(), completed("1"));
        assert_eq!(bench.answer_of(1)["error"]["type"], "cancelled");
        bench.check_empty();
    }
}

#[test]
fn connections_without_requests_are_closed_sooner_if_there_are_many() {
    let mut bench = Bench::connected();
    bench.open(2);
    bench.send(2, &bench.request_within("r", "j", 2 * 24 * 3_600_000));
    bench.pass_ms(IDLE_MS - 1);
    assert!(bench.closed.is_empty());
    bench.pass_ms(1);
    assert_eq!(bench.closed, [1], "the other one has a request");
    bench.end(bench.tag(), completed("1"));
    bench.answer_of(2);
    for link in 3..2 + CROWDED as u64 {
        bench.open(link);
    }
    bench.pass_ms(9_999);
    assert_eq!(bench.closed, [1]);
    bench.open(90_000);
    bench.pass_ms(1);
    // One of them is closed, then there are not so many any more.
    assert_eq!(bench.closed.len(), 3, "{:?}", &bench.closed);
    assert!(!bench.closed.contains(&90_000));
}

#[test]
fn the_same_request_id_of_another_job_is_another_request() {
    let mut bench = Bench::connected();
    bench.send(1, &bench.request("r", "j1"));
    bench.send(1, &bench.request("r", "j2"));
    assert_eq!(bench.started.len(), 2);
    let tags: Vec<_> = bench.started.iter().map(|(tag, _)| *tag).collect();
    bench.end(tags[1], completed("2"));
    bench.end(tags[0], completed("1"));
    let answers = bench.answers(1);
    assert_eq!(
        (&answers[0]["job_id"], &answers[0]["result"]),
        (&json!("j2"), &json!(2))
    );
    assert_eq!(
        (&answers[1]["job_id"], &answers[1]["result"]),
        (&json!("j1"), &json!(1))
    );
    bench.check_empty();
}

#[test]
fn a_cancel_stops_with_grace_and_is_answered_once() {
    let mut bench = Bench::connected();
    bench.open(2);
    bench.send(1, &bench.request("r", "j"));
    let tag = bench.tag();
    for _ in 0..3 {
        bench.send(2, &cancel("j", Some("r"), false));
    }
    assert_eq!(bench.stopped, [(tag, 500, Stop::Cancelled)]);
    assert_eq!(bench.answers(1), Vec::<Value>::new());
    bench.send(2, &cancel("j", None, true));
    bench.send(2, &cancel("j", None, true));
    assert_eq!(bench.stopped[1..], [(tag, 0, Stop::Cancelled)]);
    // The cancel came first. The guest's result does not matter.
    bench.end(tag, completed("1"));
    let answer = bench.answer_of(1);
    assert_eq!(answer["status"], "error");
    assert_eq!(
        answer["error"],
        json!({"message": "Job cancelled", "type": "cancelled", "code": null, "details": null})
    );
    bench.check_empty();
}

#[test]
fn a_cancel_without_request_id_means_every_request_of_the_job() {
    let mut bench = Bench::connected();
    for (request, job) in [("r1", "j"), ("r2", "j"), ("r3", "other")] {
        bench.send(1, &bench.request(request, job));
    }
    bench.send(1, &cancel("j", None, true));
    let stopped_tags: Vec<_> = bench.stopped.iter().map(|(tag, ..)| tag.0).collect();
    assert_eq!(stopped_tags, [0, 1]);
    for (tag, _) in bench.started.clone() {
        bench.end(tag, stopped());
    }
    assert_eq!(bench.answers(1).len(), 3);
    bench.check_empty();
}

#[test]
fn cancels_of_nothing_leave_nothing() {
    let mut bench = Bench::connected();
    bench.send(1, &bench.request("r", "j"));
    for n in 0..10_000 {
        bench.send(1, &cancel(&format!("j{n}"), None, n % 2 == 0));
        bench.send(1, &cancel("j", Some(&format!("r{n}")), false));
    }
    assert_eq!(bench.stopped, []);
    assert_eq!(bench.worker.by_request.len() + bench.worker.by_job.len(), 2);
    bench.end(bench.tag(), completed("1"));
    assert_eq!(bench.answer_of(1)["status"], "success");
    bench.send(1, &cancel("j", Some("r"), true));
    bench.check_empty();
}

#[test]
fn a_stubborn_guest_is_answered_for_and_keeps_its_slot() {
    let mut bench = Bench::connected();
    bench.send(1, &bench.request("r", "j"));
    bench.send(1, &cancel("j", Some("r"), true));
    bench.pass_ms(249);
    assert_eq!(bench.answers(1).len(), 0);
    bench.pass_ms(1);
    assert_eq!(bench.answer_of(1)["error"]["type"], "cancelled");
    assert_eq!(bench.worker.runs.len(), 1);
    bench.end(bench.tag(), stopped());
    bench.check_empty();
}

#[test]
fn a_deadline_is_answered_shortly_before_it() {
    // The time until the deadline, and when the answer is due: 1 % earlier, between 20 and 250 ms.
    for (budget_ms, answered_at_ms) in [(100, 80), (1_000, 980), (5_000, 4_950), (60_000, 59_750)] {
        let mut bench = Bench::connected();
        bench.send(1, &bench.request_within("r", "j", budget_ms));
        bench.pass_ms(answered_at_ms - 1);
        assert_eq!(bench.answers(1).len(), 0, "{budget_ms}");
        bench.pass_ms(1);
        let answer = bench.answer_of(1);
        assert_eq!(answer["status"], "timeout");
        assert_eq!(answer["error"]["type"], "timeout");
        assert_eq!(bench.stopped, [(bench.tag(), 0, Stop::Deadline)]);
        assert_eq!(bench.worker.runs.len(), 1, "its guest has not stopped");
        bench.end(bench.tag(), completed("1"));
        assert_eq!(bench.answers(1).len(), 0, "late");
        bench.check_empty();
    }
}

#[test]
fn the_margin_before_a_deadline_can_be_raised() {
    for (margin_ms, budget_ms, answered_at_ms) in [
        (100, 1_000, 900),
        (100, 20_000, 19_800),
        (999, 1_000, 750),
        (0, 1_000, 980),
    ] {
        let mut bench = Bench::connected();
        bench.worker = Worker::new(Rules {
            margin_ms_min: margin_ms,
            ..Rules::default()
        });
        bench.open(1);
        bench.send(1, &bench.request_within("r", "j", budget_ms));
        bench.pass_ms(answered_at_ms - 1);
        assert_eq!(bench.answers(1).len(), 0, "{margin_ms} of {budget_ms}");
        bench.pass_ms(1);
        assert_eq!(bench.answer_of(1)["status"], "timeout");
    }
}

#[test]
fn a_deadline_that_leaves_no_time_starts_nothing() {
    for budget_ms in [-5_000, 0, 20] {
        let mut bench = Bench::connected();
        bench.send(1, &bench.request_within("r", "j", budget_ms));
        let answer = bench.answer_of(1);
        assert_eq!(answer["status"], "timeout");
        assert_eq!(answer["error"]["message"], "Job deadline exceeded");
        assert_eq!(bench.started, []);
        bench.check_empty();
    }
}

#[test]
fn no_deadline_is_none() {
    let mut bench = Bench::connected();
    let mut request = bench.request("r", "j");
    request["payload"]["context"]["deadline"] = Value::Null;
    bench.send(1, &request);
    assert_eq!(bench.started[0].1.deadline, None);
    assert_eq!(bench.worker.wakeup(), None);
    bench.end(bench.tag(), completed("1"));
    bench.answer_of(1);
    bench.check_empty();
}

#[test]
fn the_end_of_a_connection_cancels_what_came_in_on_it() {
    let mut bench = Bench::connected();
    bench.open(2);
    bench.send(1, &bench.request("r1", "j1"));
    bench.send(2, &bench.request("r2", "j2"));
    bench.close(1);
    let first = bench.started[0].0;
    assert_eq!(bench.stopped, [(first, 500, Stop::Disconnected)]);
    bench.pass_ms(60_000);
    assert_eq!(bench.answers(1).len(), 0, "nothing is written after");
    assert_eq!(bench.answer_of(2)["status"], "timeout");
    bench.end(first, stopped());
    bench.end(bench.started[1].0, stopped());
    bench.check_empty();
}

#[test]
fn a_bad_frame_is_the_end_of_what_came_in_on_its_connection() {
    let mut bench = Bench::connected();
    bench.send(1, &bench.request("r1", "j"));
    bench.send_bytes(1, b"{nope");
    assert_eq!(bench.closed, [1]);
    assert_eq!(bench.stopped, [(bench.tag(), 500, Stop::Disconnected)]);
    bench.send(1, &bench.request("r2", "j"));
    assert_eq!(bench.started.len(), 1, "nothing more is read of it");
    bench.close(1);
    bench.end(bench.tag(), completed("1"));
    bench.check_empty();
}

#[test]
fn a_stop_of_the_host_ends_and_answers_everything() {
    let mut bench = Bench::connected();
    for request in ["r1", "r2", "r3"] {
        bench.send(1, &bench.request(request, "j"));
    }
    bench.send(1, &cancel("j", Some("r2"), false));
    bench.stopped.clear();
    bench.stop_host();
    assert_eq!(bench.stopped.len(), 3);
    assert!(bench.stopped.iter().all(|(_, grace, _)| *grace == 0));
    bench.send(1, &bench.request("r4", "j"));
    assert_eq!(bench.answer_of(1)["error"]["type"], "runner_stopping");
    bench.end(bench.started[0].0, stopped());
    assert_eq!(bench.answer_of(1)["error"]["type"], "runner_stopping");
    bench.pass_ms(100);
    let kinds: Vec<Value> = bench
        .answers(1)
        .iter()
        .map(|a| a["error"]["type"].clone())
        .collect();
    assert_eq!(kinds, [json!("cancelled"), json!("runner_stopping")]);
    bench.end(bench.started[1].0, stopped());
    bench.end(bench.started[2].0, stopped());
    bench.check_empty();
}

#[test]
fn the_end_of_the_host_answers_what_is_left_and_closes_all() {
    let mut bench = Bench::connected();
    bench.open(2);
    bench.send(1, &bench.request("r", "j"));
    assert!(!bench.worker.is_answered());
    bench.stop_host();
    bench.handle_event(WorkerEvent::End);
    assert!(bench.worker.is_answered());
    assert_eq!(bench.answer_of(1)["error"]["type"], "runner_stopping");
    assert_eq!(bench.closed, [1, 2]);
    assert_eq!(bench.worker.wakeup(), None);
    bench.end(bench.tag(), stopped());
    bench.check_empty();
}

#[test]
fn a_full_host_says_busy() {
    let mut bench = Bench::connected();
    bench.send(1, &bench.request("r", "j"));
    bench.answer(bench.tag(), ExecutionEnd::Busy);
    assert_eq!(bench.answer_of(1)["error"]["type"], "runner_busy");
    bench.check_empty();
}

#[test]
fn a_result_that_fits_no_frame_is_an_error() {
    let mut bench = Bench::connected();
    bench.send(1, &bench.request("r", "j"));
    bench.end(
        bench.tag(),
        completed(&format!("\"{}\"", "x".repeat(16 << 20))),
    );
    let answer = bench.answer_of(1);
    assert_eq!(answer["status"], "error");
    assert_eq!(answer["error"]["type"], "result_too_large");
    assert_eq!(answer["request_id"], "r");
    bench.check_empty();
}

#[derive(Clone, Debug)]
enum Step {
    Open,
    Close(u64),
    Request(u64, u8, u8, i64),
    Cancel(u64, u8, Option<u8>, bool),
    End(u8, u8),
    Pass(u64),
    StopHost,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => Just(Step::Open),
        1 => (0_u64..6).prop_map(Step::Close),
        6 => (0_u64..6, 0_u8..8, 0_u8..4, -50_i64..3_000).prop_map(|(l, r, j, d)| Step::Request(l, r, j, d)),
        3 => (0_u64..6, 0_u8..4, prop::option::of(0_u8..8), any::<bool>()).prop_map(|(l, j, r, h)| Step::Cancel(l, j, r, h)),
        4 => (any::<u8>(), 0_u8..5).prop_map(|(n, how)| Step::End(n, how)),
        3 => (0_u64..1_500).prop_map(Step::Pass),
        1 => prop::sample::select(vec![Step::Pass(1), Step::Pass(1), Step::StopHost]),
    ]
}

fn outcome(how: u8) -> Outcome {
    match how {
        0 => completed("1"),
        1 => stopped(),
        2 => Outcome::Retry {
            reason: "later".to_owned(),
            after_ms: Some(1),
        },
        3 => Outcome::Cancelled { partial: None },
        _ => Outcome::Failed(Failure::new(FailureKind::Trapped, "trap")),
    }
}

proptest! {
    /// In any order of events, each request on a connection that stays open is answered exactly
    /// once, and nothing is left at the end.
    #[test]
    fn one_answer_for_each_request(steps in prop::collection::vec(step(), 1..80)) {
        let mut bench = Bench::new();
        let mut opened = 0;
        let mut asked = std::collections::BTreeMap::<u64, usize>::new();
        let mut ended = std::collections::BTreeSet::new();
        let mut answered = std::collections::BTreeMap::<u64, usize>::new();
        for step in steps {
            match step {
                Step::Open => {
                    bench.open(opened);
                    asked.insert(opened, 0);
                    opened += 1;
                }
                Step::Close(link) => {
                    bench.close(link);
                    asked.remove(&link);
                    bench.answers(link);
                }
                Step::Request(link, request, job, ms) => {
                    let request = bench.request_within(&format!("r{request}"), &format!("j{job}"), ms);
                    bench.send(link, &request);
                    if let Some(count) = asked.get_mut(&link) {
                        *count += 1;
                    }
                }
                Step::Cancel(link, job, request, hard) => {
                    let request = request.map(|request| format!("r{request}"));
                    bench.send(link, &cancel(&format!("j{job}"), request.as_deref(), hard));
                }
                Step::End(n, how) => {
                    let open: Vec<_> = bench.started.iter().map(|(tag, _)| *tag).filter(|tag| !ended.contains(tag)).collect();
                    if !open.is_empty() {
                        let tag = open[usize::from(n) % open.len()];
                        ended.insert(tag);
                        bench.end(tag, outcome(how));
                    }
                }
                Step::Pass(ms) => bench.pass_ms(ms),
                Step::StopHost => bench.stop_host(),
            }
        }
        for (tag, _) in bench.started.clone() {
            if ended.insert(tag) {
                bench.end(tag, completed("1"));
            }
            // A second answer for the same execution changes nothing.
            bench.end(tag, completed("2"));
        }
        for link in 0..opened {
            let answers = bench.answers(link).len();
            if asked.contains_key(&link) {
                answered.insert(link, answers);
            }
        }
        prop_assert_eq!(asked, answered);
        bench.check_empty();
    }
}
