//! Two nodes of one store: a worker's callbacks may reach the one that has not sent its task.

use std::sync::Arc;

use host_core::failure::FailureKind;
use host_core::id::NodeId;
use host_core::job::State;
use host_core::policy::Policy;
use host_core::port::Clock as _;
use host_testing::LeaseHost;
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::envelope;
use super::fixture::TIMES;
use super::side::{Outgoing, Side};

/// A task that a node has sent, and the number of its callbacks.
struct Task {
    dispatch: u64,
    id: String,
    token: String,
    calls: u64,
}

impl Task {
    fn sent(side: &mut Side) -> Self {
        let mut sent = side.go_on();
        let Some(Outgoing::Dispatch(dispatch, body)) = sent.pop() else {
            panic!("no dispatch");
        };
        let body: Value = serde_json::from_slice(&body).unwrap();
        let text = |field: &str| body[field].as_str().unwrap().to_owned();
        Self {
            dispatch,
            id: text("taskId"),
            token: text("taskToken"),
            calls: 0,
        }
    }

    /// Calls a node back and returns its answer.
    fn call(&mut self, side: &mut Side, verb: &str, more: &Value) -> (u16, Value) {
        self.calls += 1;
        let path = format!("/v1/tasks/{}/{verb}", self.id);
        let mut body = json!({"attempt": 1, "workerId": "w"});
        for (key, value) in more.as_object().unwrap() {
            body[key] = value.clone();
        }
        side.callback(self.calls, &path, &self.token, &body.to_string());
        let answered = side.go_on().into_iter().find_map(|sent| match sent {
            Outgoing::Answer(link, status, body) if link == self.calls => Some((status, body)),
            _ => None,
        });
        let (status, body) = answered.expect("an answer");
        (status, serde_json::from_str(&body).unwrap())
    }
}

fn nodes(model: &Arc<LeaseHost>) -> [Side; 2] {
    [1, 2].map(|n| {
        let node = NodeId(Uuid::from_u128(n));
        Side::at_node(model, model.node(node), 2)
    })
}

fn limited() -> Policy {
    Policy {
        timeout_ms: Some(40_000),
        ..envelope::policy(&TIMES)
    }
}

#[test]
fn an_attempt_has_its_deadline_at_a_node_that_has_not_sent_it() {
    let model = LeaseHost::new();
    let [mut own, mut other] = nodes(&model);
    let id = model.enqueue(("spark", "key"), "{}", limited(), &[]);
    let mut task = Task::sent(&mut own);
    assert_eq!(task.call(&mut other, "started", &json!({})).0, 200);
    model.advance(39_000);
    let (_, answer) = task.call(&mut other, "heartbeat", &json!({}));
    assert_eq!(answer["shouldCancel"], false);
    model.advance(1_000);
    let (_, answer) = task.call(&mut other, "heartbeat", &json!({}));
    assert_eq!(answer["cancelReason"], "deadline_exceeded");
    model.advance(TIMES.cancel_grace_ms + 1_000);
    let (status, answer) = task.call(&mut other, "heartbeat", &json!({}));
    assert_eq!((status, &answer["error"]), (410, &json!("task_expired")));
    assert_ne!(model.state(id), State::Running);
    own.go_on();
    assert_eq!([own.in_flight(), other.in_flight()], [0, 0]);
}

/// No callback has to come, and the node that has sent it may be gone.
#[test]
fn an_attempt_ends_by_itself_when_its_time_and_grace_are_over() {
    for is_gone in [false, true] {
        let model = LeaseHost::new();
        let [mut own, mut other] = nodes(&model);
        let id = model.enqueue(("spark", "key"), "{}", limited(), &[]);
        let mut task = Task::sent(&mut own);
        assert_eq!(task.call(&mut own, "started", &json!({})).0, 200);
        model.advance(39_000);
        assert_eq!(task.call(&mut own, "heartbeat", &json!({})).0, 200);
        if is_gone {
            model.kill(NodeId(Uuid::from_u128(1)));
        }
        model.advance(TIMES.cancel_grace_ms + 1_999);
        assert_eq!(model.state(id), State::Running);
        model.advance(1);
        let failure = model.look(id, |job| job.failure.clone());
        assert_eq!(failure.unwrap().kind, FailureKind::TimedOut);
        assert_eq!(task.call(&mut other, "heartbeat", &json!({})).0, 410);
        if !is_gone {
            own.go_on();
            assert_eq!(own.in_flight(), 0);
        }
    }
}

/// The worker is busy with the same task when it is sent again.
#[test]
fn a_node_that_stops_gives_nothing_back_that_has_begun_at_another_one() {
    let model = LeaseHost::new();
    let [mut own, mut other] = nodes(&model);
    let policy = envelope::policy(&TIMES);
    let id = model.enqueue(("spark", "key"), "{}", policy, &[]);
    let mut task = Task::sent(&mut own);
    assert_eq!(task.call(&mut other, "started", &json!({})).0, 200);
    own.dispatched(task.dispatch, Some(503));
    own.stop();
    own.go_on();
    assert_eq!(model.state(id), State::Running);
    let ended = json!({"outcome": "SUCCEEDED"});
    assert_eq!(task.call(&mut other, "completed", &ended).0, 200);
    assert_eq!(model.state(id), State::Completed);
}

#[test]
fn a_node_forgets_the_attempts_of_others() {
    let model = LeaseHost::new();
    let [mut own, mut other] = nodes(&model);
    let policy = envelope::policy(&TIMES);
    model.enqueue(("spark", "key"), "{}", policy, &[]);
    let mut task = Task::sent(&mut own);
    assert_eq!(task.call(&mut other, "started", &json!({})).0, 200);
    assert_eq!([own.known(), other.known()], [1, 1]);
    let ended = json!({"outcome": "SUCCEEDED"});
    assert_eq!(task.call(&mut own, "completed", &ended).0, 200);
    assert_eq!([own.known(), other.known()], [0, 1]);
    let due = other.due().expect("it forgets the attempt some time");
    model.advance(due.since_ms(model.clock.now()));
    other.go_on();
    assert_eq!(other.known(), 0);
}

#[test]
fn a_cancel_leaves_alone_what_has_begun_by_a_message_to_another_node() {
    let model = LeaseHost::new();
    let [mut own, mut other] = nodes(&model);
    let policy = envelope::policy(&TIMES);
    let id = model.enqueue(("spark", "key"), "{}", policy, &[]);
    let mut task = Task::sent(&mut own);
    assert_eq!(task.call(&mut other, "started", &json!({})).0, 200);
    model.cancel(id, None).unwrap();
    own.go_on();
    assert_eq!(model.state(id), State::Running);
    let (_, answer) = task.call(&mut other, "heartbeat", &json!({}));
    assert_eq!(answer["shouldCancel"], true);
    let cancelled = json!({"outcome": "CANCELLED"});
    let (_, answer) = task.call(&mut own, "completed", &cancelled);
    assert_eq!(answer["finalState"], "CANCELLED");
}
