//! The framed dialect: an orchestrator that answers DONE, FAILED and READY alike, as the public one does.

use std::collections::VecDeque;

use host_core::outcome::Outcome;
use host_wire_kit::session::Session as _;
use serde_json::{Value, json};

use super::fixture::{Bench, done, failed, setup};
use crate::frame::Dialect;
use crate::worker::{ANSWER_MS, Event, HEARTBEAT_MS};

const NOTHING: [&str; 0] = [];

fn framed() -> Bench {
    Bench::new(setup(false, Dialect::Framed))
}

fn task(issue_id: &str) -> Value {
    json!({"type": "TASK", "worker_id": "W1", "issue_id": issue_id, "priority": 1, "title": "t"})
}

fn wait() -> Value {
    json!({"type": "WAIT", "worker_id": "W1", "wait_seconds": 30})
}

/// The public orchestrator: READY, DONE and FAILED are each answered with a task, or with WAIT.
struct Public {
    tasks: VecDeque<String>,
    ends: Vec<(String, String)>,
}

impl Public {
    fn answer(&mut self, message: &Value) -> Option<Value> {
        match message["type"].as_str().unwrap() {
            "HEARTBEAT" => return None,
            "READY" => {}
            end => {
                let issue_id = message["issue_id"].as_str().unwrap();
                self.ends.push((end.to_owned(), issue_id.to_owned()));
            }
        }
        Some(self.tasks.pop_front().map_or_else(wait, |it| task(&it)))
    }
}

/// Has workers do 30 tasks. Each answer comes after `late_ms`.
fn thirty_tasks(workers: usize, late_ms: u64) {
    let mut public = Public {
        tasks: (0..30).map(|number| format!("b-{number}")).collect(),
        ends: Vec::new(),
    };
    let mut benches: Vec<Bench> = Vec::new();
    for _ in 0..workers {
        let mut bench = framed();
        bench.receive_framed(&public.answer(&json!({"type": "READY"})).unwrap());
        benches.push(bench);
    }
    for _ in 0..1_000 {
        for bench in &mut benches {
            if bench.session_is_busy() {
                bench.end(done());
            }
            let sent = bench.sent();
            bench.pass_ms(late_ms);
            for message in sent.into_iter().chain(bench.sent()) {
                if let Some(answer) = public.answer(&message) {
                    bench.receive_framed(&answer);
                }
            }
        }
    }
    let mut done: Vec<&str> = Vec::new();
    for (end, issue_id) in &public.ends {
        assert_eq!(end, "DONE", "{issue_id}, {workers} workers, {late_ms} ms");
        assert!(
            !done.contains(&issue_id.as_str()),
            "{issue_id} is done twice"
        );
        done.push(issue_id);
    }
    assert_eq!(done.len(), 30, "{workers} workers, {late_ms} ms");
}

#[test]
fn an_orchestrator_that_answers_each_end_has_all_its_tasks_done() {
    for late_ms in [0, ANSWER_MS - 1, ANSWER_MS, 10 * ANSWER_MS] {
        thirty_tasks(1, late_ms);
        thirty_tasks(4, late_ms);
    }
}

#[test]
fn ready_follows_an_end_only_if_nothing_else_does() {
    let mut bench = framed();
    bench.receive_framed(&task("b-1"));
    bench.end(done());
    assert_eq!(bench.types(), ["DONE"]);
    bench.pass_ms(ANSWER_MS - 1);
    assert_eq!(bench.types(), NOTHING);
    bench.pass_ms(1);
    assert_eq!(bench.types(), ["READY"]);
    bench.receive_framed(&task("b-2"));
    bench.end(failed("no"));
    bench.receive_framed(&wait());
    bench.pass_ms(29_999);
    assert!(
        !bench.types().contains(&"READY".to_owned()),
        "WAIT is the answer"
    );
    bench.pass_ms(1);
    assert!(bench.types().contains(&"READY".to_owned()));
}

#[test]
fn a_second_task_waits_for_the_first() {
    let mut bench = framed();
    bench.receive_framed(&task("b-1"));
    bench.receive_framed(&task("-rf"));
    bench.receive_framed(&task("b-2"));
    assert_eq!(bench.started.len(), 1);
    bench.end(done());
    assert_eq!(bench.started[1].1.external_id, "b-2");
    bench.end(None::<Outcome>);
    let sent = bench.sent();
    let ends: Vec<_> = sent
        .iter()
        .map(|it| (&it["type"], &it["issue_id"]))
        .collect();
    let documents = [("DONE", "b-1"), ("FAILED", "-rf"), ("FAILED", "b-2")]
        .map(|(end, issue_id)| (json!(end), json!(issue_id)));
    let expected: Vec<_> = documents
        .iter()
        .map(|(end, issue_id)| (end, issue_id))
        .collect();
    assert_eq!(ends, expected);
}

#[test]
fn tasks_that_wait_are_the_orchestrators_again_when_the_worker_ends() {
    let mut bench = framed();
    bench.receive_framed(&task("b-1"));
    bench.receive_framed(&task("b-2"));
    bench.say(Event::Stop);
    bench.end(failed("stopped"));
    assert!(bench.session.is_idle() && bench.closed == 1);
    assert_eq!(bench.started.len(), 1);
    let mut bench = framed();
    bench.receive_framed(&task("b-1"));
    bench.receive_framed(&task("b-2"));
    bench.close();
    bench.end(failed("stopped"));
    bench.open();
    assert_eq!(bench.started.len(), 1);
    assert_eq!(bench.types(), ["READY"]);
}

#[test]
fn a_framed_worker_sends_heartbeats_whatever_it_does() {
    let mut bench = framed();
    bench.pass_ms(HEARTBEAT_MS);
    assert_eq!(bench.types(), ["HEARTBEAT"]);
    bench.receive_framed(&task("b-1"));
    for _ in 0..20 {
        bench.pass_ms(HEARTBEAT_MS);
        assert_eq!(bench.types(), ["HEARTBEAT"]);
    }
    bench.close();
    assert_eq!(bench.session.wakeup(), None);
    // With lines there are none.
    let mut bench = Bench::connected(false);
    bench.task("b-1");
    bench.pass_ms(10 * HEARTBEAT_MS);
    assert_eq!(bench.types(), NOTHING);
}

#[test]
fn the_longest_duration_is_an_hour() {
    let mut bench = framed();
    bench.receive_framed(&task("b-1"));
    bench.pass_ms(10_000_000);
    bench.end(done());
    let last = bench.sent().pop().unwrap();
    assert_eq!(
        (&last["type"], &last["duration_ms"]),
        (&json!("DONE"), &json!(3_600_000))
    );
}

/// Returns whether the worker's first message on its next connection is framed.
fn next_is_framed(bench: &mut Bench) -> bool {
    bench.close();
    bench.open();
    bench.types();
    bench.session.choice.dialect == Dialect::Framed
}

#[test]
fn lines_without_an_answer_are_followed_by_frames() {
    let mut bench = Bench::connected(false);
    assert!(next_is_framed(&mut bench));
    assert!(
        !next_is_framed(&mut bench),
        "frames have had no answer either"
    );
    assert!(next_is_framed(&mut bench));
    assert_eq!(bench.tries, 2);
    bench.receive_framed(&wait());
    assert!(
        next_is_framed(&mut bench) && next_is_framed(&mut bench),
        "frames have been answered"
    );
    assert_eq!(bench.tries, 2);
}

#[test]
fn a_dialect_that_was_answered_or_configured_is_kept() {
    let mut bench = Bench::connected(false);
    bench.receive(&wait());
    assert!(!next_is_framed(&mut bench) && !next_is_framed(&mut bench));
    let mut bench = framed();
    assert!(next_is_framed(&mut bench) && next_is_framed(&mut bench));
    assert_eq!(bench.tries, 0);
}
