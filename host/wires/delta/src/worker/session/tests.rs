//! What a runner sends and when, step by step.

mod network;
mod transcripts;

use host_core::failure::{Failure, FailureKind};
use host_core::json::JsonText;
use host_core::outcome::{Meter, Outcome, Progress};
use host_core::port::Answer;
use host_wire_kit::session::Action;
use serde_json::{Value, json};

use super::super::exchange::Reply;
use super::super::lease;
use super::*;

const START: Time = Time(1_000_000);
const WALL: &str = "2026-01-04T08:00:00.000Z";
const WALL_20: &str = "2026-01-04T08:00:20.000Z";
const WALL_40: &str = "2026-01-04T08:00:40.000Z";
const ACCEPTED: Response = Response::Accepted(Reply {
    ttl_ms: None,
    cancel_ms: None,
});

/// A session that has begun, and the time.
struct Bench {
    session: LeaseSession,
    now: Time,
}

fn bench(steps: &Value) -> Bench {
    bench_with(steps, Results::default())
}

fn bench_with(steps: &Value, results: Results) -> Bench {
    bench_in(false, steps, results)
}

/// The same for a lease over the network or not.
fn bench_in(is_network: bool, steps: &Value, results: Results) -> Bench {
    let mut lease = json!({
        "job_id": "j", "run_id": "r", "lease_id": "l", "lease_ttl_seconds": 120,
        "heartbeat_interval_seconds": 20, "max_runtime_seconds": 60, "job_spec": {"steps": steps},
    });
    if is_network {
        lease["heartbeat_wait_seconds"] = json!(60);
        lease["log_uri"] = json!("/logs/j");
    }
    let lease = lease::read(lease.to_string().as_bytes()).unwrap();
    let mode = Mode {
        dialect: Dialect::Documented,
        is_network,
    };
    let session = LeaseSession::new(START, lease, "w1", mode, results);
    let now = START;
    Bench { session, now }
}

fn one() -> Value {
    json!(["wasm:echo"])
}

/// Shows what the host is to do.
fn shown(acts: &[Effect]) -> Vec<String> {
    let shown = |act: &Effect| match act {
        Effect::Send { kind, .. } => format!("send {kind:?}"),
        Effect::Start(tag, job) => format!("start {} {}", tag.0, job.handler),
        Effect::Stop(tag, grace_ms, why) => format!("stop {} {grace_ms} {why:?}", tag.0),
        Effect::Log(..) => "log".to_owned(),
        Effect::Upload { offset, text, .. } => format!("upload {offset} {text:?}"),
        Effect::WarnOfLog(why) => format!("no more log: {why}"),
        Effect::Keep(path, text) => format!("keep {path} {}", text.len()),
        Effect::Done(done) => format!("{done:?}"),
    };
    acts.iter().map(shown).collect()
}

/// Returns the message among the acts.
fn message(acts: &[Effect]) -> Value {
    let body = acts.iter().find_map(|act| match act {
        Effect::Send { body, .. } => Some(body),
        _ => None,
    });
    serde_json::from_str(body.expect("a message is sent")).unwrap()
}

fn completed(result: &str) -> Answer {
    let result = Some(JsonText(result.to_owned()));
    Answer::Ended(Outcome::Completed { result }, Meter::default())
}

fn failed(kind: FailureKind) -> Answer {
    let failure = Failure::new(kind, "no luck");
    Answer::Ended(Outcome::Failed(failure), Meter::default())
}

fn stopped() -> Answer {
    let partial = Some(JsonText("7".to_owned()));
    Answer::Ended(Outcome::Cancelled { partial }, Meter::default())
}

/// Takes the effects of a step.
pub(super) fn effects(mut todo: Actions) -> Vec<Effect> {
    let effects = todo.drain().map(|action| match action {
        Action::Effect(effect) => effect,
        other => panic!("{other:?}"),
    });
    effects.collect()
}

impl Bench {
    fn event(&mut self, event: Event) -> Vec<Effect> {
        let (now, mut todo) = (self.now, Actions::default());
        let start = Time::parse_rfc3339(WALL).unwrap();
        let wall = start.plus_ms(now.since_ms(START));
        self.session
            .on_event(Moment { now, wall }, event, &mut todo);
        effects(todo)
    }

    fn begin(&mut self) -> Vec<Effect> {
        self.event(Event::Begin)
    }

    fn receives(&mut self, kind: Kind, response: Response) -> Vec<Effect> {
        self.event(Event::Answered(kind, response))
    }

    fn guest(&mut self, tag: u64, answer: Answer) -> Vec<Effect> {
        self.event(Event::Guest(Tag(tag), answer))
    }

    /// Moves to the next wakeup and returns what is done then.
    fn wakes(&mut self) -> Vec<Effect> {
        let mut todo = Actions::default();
        self.now = self.session.wakeup().expect("something is due");
        self.session.on_wakeup(self.now, &mut todo);
        effects(todo)
    }

    /// Begins, and hears that the lease is acknowledged and extended: the first step runs.
    fn runs(mut self) -> Self {
        self.begin();
        self.receives(Kind::Ack, ACCEPTED);
        self.receives(Kind::Heartbeat, ACCEPTED);
        self
    }

    /// The same, with a heartbeat under way.
    fn beats(self) -> Self {
        let mut it = self.runs();
        assert_eq!(shown(&it.wakes()), ["send Heartbeat"]);
        it
    }
}

/// Its orchestrator counts from the grant, and would give the job to another runner before.
#[test]
fn a_job_that_begins_late_has_less_time() {
    let mut it = bench(&one());
    it.begin();
    it.now = START.plus_ms(20_000);
    it.receives(Kind::Ack, ACCEPTED);
    let acts = it.receives(Kind::Heartbeat, ACCEPTED);
    let starts = acts.iter().find_map(|act| match act {
        Effect::Start(_, job) => Some(job.deadline),
        _ => None,
    });
    assert_eq!(starts, Some(Some(START.plus_ms(60_000))));
}

#[test]
fn a_job_is_acknowledged_beaten_for_and_completed() {
    let mut it = bench(&one());
    let acts = it.begin();
    assert_eq!(
        message(&acts),
        json!({"type": "AckLease", "job_id": "j", "lease_id": "l", "runner_id": "w1", "accepted_at": WALL})
    );
    let acts = it.receives(Kind::Ack, ACCEPTED);
    assert_eq!(shown(&acts), ["send Heartbeat"]);
    let acts = it.receives(Kind::Heartbeat, ACCEPTED);
    assert_eq!(shown(&acts), ["start 0 echo"]);
    let Effect::Start(_, job) = &acts[0] else {
        unreachable!()
    };
    assert_eq!(job.deadline, Some(START.plus_ms(60_000)));
    assert_eq!(
        job.attributes,
        [("delta.run_id".to_owned(), "r".to_owned())]
    );
    assert!(job.wants_log && !format!("{job:?}").contains("\"l\""));
    let progress = Progress {
        percent: Some(35.9),
        message: "half".to_owned(),
    };
    it.guest(0, Answer::Progressed(progress));
    it.event(Event::Logged(9));
    let beat = it.wakes();
    assert_eq!(it.now, START.plus_ms(20_000));
    assert_eq!(
        message(&beat),
        json!({
            "type": "Heartbeat", "lease_id": "l", "runner_id": "w1", "ts": WALL_20,
            "progress": {"percent": 35, "current_step": "wasm:echo", "step_index": 0, "message": "half"},
            "log_cursor": {"bytes_sent": 9},
        })
    );
    let acts = it.guest(0, completed("{\"a\":1}"));
    assert_eq!(shown(&acts), ["send Complete"]);
    assert_eq!(
        message(&acts),
        json!({
            "type": "Complete", "lease_id": "l", "runner_id": "w1", "status": "SUCCEEDED", "exit_code": 0,
            "timings": {"started_at": WALL, "finished_at": WALL_20}, "artifacts": [], "summary": "{\"a\":1}",
        })
    );
    // The answer to a heartbeat that was on its way counts no more.
    assert_eq!(it.receives(Kind::Heartbeat, Response::Stale), []);
    let acts = it.receives(Kind::Complete, ACCEPTED);
    assert_eq!(acts, [Effect::Done(Done::Reported(Status::Succeeded))]);
    assert_eq!(it.session.wakeup(), None);
    assert_eq!(it.receives(Kind::Complete, ACCEPTED), []);
}

#[test]
fn steps_run_in_order_and_the_first_that_fails_ends_the_job() {
    let steps = json!(["wasm:a", "wasm:b", "make", "wasm:c"]);
    let mut it = bench(&steps).runs();
    assert_eq!(shown(&it.guest(0, completed("1"))), ["start 1 b"]);
    assert_eq!(it.guest(0, completed("1")), [], "it has ended");
    let acts = it.guest(1, completed("2"));
    let end = message(&acts);
    assert_eq!(
        (&end["status"], &end["exit_code"]),
        (&json!("FAILED"), &json!(1))
    );
    let summary = end["summary"].as_str().unwrap();
    assert!(
        summary.starts_with("make: \"make\" is not a step that this runner")
            && summary.ends_with("; the results before: [1,2]"),
        "{summary}"
    );
    for (answer, status, expected) in [
        (
            failed(FailureKind::UserError),
            "FAILED",
            "wasm:a: user_error: no luck",
        ),
        (
            failed(FailureKind::HandlerNotFound),
            "FAILED",
            "wasm:a: handler_not_found: no luck",
        ),
        (
            failed(FailureKind::TimedOut),
            "TIMED_OUT",
            "wasm:a: no luck",
        ),
        (Answer::Busy, "FAILED", "wasm:a: this runner has no room"),
        (stopped(), "FAILED", "wasm:a: stopped; it had done 7"),
    ] {
        let mut it = bench(&steps).runs();
        let end = message(&it.guest(0, answer));
        assert_eq!(
            (&end["status"], &end["summary"]),
            (&json!(status), &json!(expected))
        );
    }
    let mut it = bench(&json!(["wasm:a", "wasm:b"])).runs();
    it.guest(0, completed("1"));
    assert_eq!(
        message(&it.guest(1, failed(FailureKind::UserError)))["summary"],
        "wasm:b: user_error: no luck; the results before: 1"
    );
    let mut it = bench(&json!(["wasm:a", "wasm:b"])).runs();
    it.guest(0, completed("1"));
    assert_eq!(
        message(&it.guest(1, completed("\"x\"")))["summary"],
        "[1,\"x\"]"
    );
    let mut it = bench(&json!([]));
    it.begin();
    it.receives(Kind::Ack, ACCEPTED);
    let acts = it.receives(Kind::Heartbeat, ACCEPTED);
    assert_eq!(message(&acts)["summary"], "the job has no steps");
}

#[test]
fn a_large_result_is_a_file_beside_the_log() {
    let log = std::path::Path::new("/tmp/job.log");
    let large = format!("\"{}\"", "x".repeat(64 << 10));
    let mut it = bench_with(&one(), Results::new(Some(log))).runs();
    let acts = it.guest(0, completed(&large));
    let keep = format!("keep /tmp/job.log.result-0.json {}", large.len());
    assert_eq!(shown(&acts), [keep.as_str(), "send Complete"]);
    assert_eq!(
        message(&acts)["artifacts"],
        json!([
            {"type": "log", "uri": "file:///tmp/job.log"},
            {"type": "result", "uri": "file:///tmp/job.log.result-0.json"},
        ])
    );
    // A strict orchestrator gets them as well.
    let again = message(&it.receives(Kind::Complete, Response::UnknownField));
    assert!(again["timings"].is_null(), "{again}");
    assert_eq!(again["artifacts"].as_array().map(Vec::len), Some(2));
    // Without a log there is no place for it.
    let mut it = bench(&one()).runs();
    let summary = message(&it.guest(0, completed(&large)))["summary"].to_string();
    assert!(summary.contains("they begin with") && summary.len() < 70_000);
}

#[test]
fn a_heartbeat_is_sent_again_within_an_interval() {
    for (interval_ms, waits) in [
        (100, [100; 5]),
        (500, [250, 500, 500, 500, 500]),
        (20_000, [250, 500, 1_000, 2_000, 4_000]),
    ] {
        let mut backoff = beats::backoff(interval_ms);
        assert_eq!([(); 5].map(|()| backoff.next_ms()), waits, "{interval_ms}");
    }
}

#[test]
fn a_message_without_an_answer_is_sent_again_byte_for_byte() {
    let mut it = bench(&one());
    let first = it.begin();
    let mut waits = Vec::new();
    for _ in 0..8 {
        let before = it.now;
        assert_eq!(it.receives(Kind::Ack, Response::Again), []);
        assert_eq!(it.wakes(), first);
        waits.push(it.now.since_ms(before));
    }
    assert_eq!(waits, [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000, 5_000]);
    it.receives(Kind::Ack, ACCEPTED);
    it.receives(Kind::Heartbeat, ACCEPTED);
    let first = it.guest(0, completed("1"));
    it.receives(Kind::Complete, Response::Again);
    assert_eq!(it.wakes(), first);
    let acts = it.receives(Kind::Complete, ACCEPTED);
    assert_eq!(acts, [Effect::Done(Done::Reported(Status::Succeeded))]);
}

#[test]
fn an_end_is_repeated_while_the_lease_may_live_and_no_longer() {
    let mut it = bench(&one()).runs();
    it.guest(0, completed("1"));
    it.receives(Kind::Complete, Response::Again);
    loop {
        let acts = it.wakes();
        if shown(&acts) == ["send Heartbeat"] {
            // It asks for a cancel, and does not extend the lease.
            assert_eq!(it.receives(Kind::Heartbeat, ACCEPTED), []);
            continue;
        }
        if let [Effect::Done(done)] = acts.as_slice() {
            assert!(matches!(done, Done::Lost(_)), "{done:?}");
            break;
        }
        assert_eq!(shown(&acts), ["send Complete"]);
        it.receives(Kind::Complete, Response::Again);
    }
    assert_eq!(it.now, START.plus_ms(120_000));
}

#[test]
fn a_stale_answer_stops_the_guest_at_once_and_nothing_is_sent_after() {
    let mut it = bench(&one()).beats();
    assert_eq!(
        shown(&it.receives(Kind::Heartbeat, Response::Stale)),
        ["stop 0 0 Disconnected"]
    );
    assert_eq!(it.session.wakeup(), None);
    let acts = it.guest(0, completed("1"));
    assert!(
        matches!(acts.as_slice(), [Effect::Done(Done::Lost(_))]),
        "{acts:?}"
    );
    let mut it = bench(&one());
    it.begin();
    let acts = it.receives(Kind::Ack, Response::Stale);
    assert!(
        matches!(acts.as_slice(), [Effect::Done(Done::Lost(_))]),
        "{acts:?}"
    );
    let mut it = bench(&one()).runs();
    it.guest(0, completed("1"));
    let acts = it.receives(Kind::Complete, Response::Stale);
    assert!(
        matches!(acts.as_slice(), [Effect::Done(Done::Refused(_))]),
        "{acts:?}"
    );
}

#[test]
fn a_refusal_ends_it_with_its_reason() {
    let refused = || Response::Refused("401 no".to_owned());
    let mut it = bench(&one());
    it.begin();
    let acts = it.receives(Kind::Ack, refused());
    assert_eq!(shown(&acts), ["Refused(\"AckLease was refused: 401 no\")"]);
    let mut it = bench(&one()).runs();
    it.guest(0, completed("1"));
    let acts = it.receives(Kind::Complete, refused());
    assert_eq!(shown(&acts), ["Refused(\"Complete was refused: 401 no\")"]);
    // A heartbeat is tried again until the lease has run out.
    let mut it = bench(&one()).beats();
    assert_eq!(it.receives(Kind::Heartbeat, refused()), []);
    assert_eq!(shown(&it.wakes()), ["send Heartbeat"]);
}

#[test]
fn a_guest_does_not_outlive_a_lease_that_is_not_extended() {
    let mut it = bench(&one()).runs();
    loop {
        let acts = it.wakes();
        it.receives(Kind::Heartbeat, Response::Again);
        if shown(&acts) == ["stop 0 0 Disconnected"] {
            break;
        }
        assert_eq!(shown(&acts), ["send Heartbeat"]);
    }
    assert_eq!(it.now, START.plus_ms(108_000), "a tenth before the end");
    // One whose answer never comes does not help either.
    let mut it = bench(&one()).beats();
    assert_eq!(shown(&it.wakes()), ["stop 0 0 Disconnected"]);
}

#[test]
fn a_cancel_leaves_the_guest_its_time_and_is_acknowledged() {
    let cancel = |ms| {
        Response::Accepted(Reply {
            ttl_ms: Some(120_000),
            cancel_ms: Some(ms),
        })
    };
    let mut it = bench(&one()).beats();
    assert_eq!(
        shown(&it.receives(Kind::Heartbeat, cancel(30_000))),
        ["stop 0 29000 Cancelled"]
    );
    // Heartbeats continue, and their answers repeat it.
    assert_eq!(shown(&it.wakes()), ["send Heartbeat"]);
    assert_eq!(it.receives(Kind::Heartbeat, cancel(10_000)), []);
    let acts = it.guest(0, stopped());
    assert_eq!(
        message(&acts),
        json!({
            "type": "CancelAck", "lease_id": "l", "runner_id": "w1", "final_status": "CANCELED",
            "ts": WALL_40, "artifacts": [], "summary": "wasm:echo: stopped; it had done 7",
        })
    );
    let acts = it.receives(Kind::CancelAck, ACCEPTED);
    assert_eq!(acts, [Effect::Done(Done::Reported(Status::Canceled))]);
    // Work that was finished all the same is reported as finished.
    let mut it = bench(&one()).beats();
    it.receives(Kind::Heartbeat, cancel(0));
    assert_eq!(message(&it.guest(0, completed("1")))["status"], "SUCCEEDED");
    // But no further step begins.
    let mut it = bench(&json!(["wasm:a", "wasm:b"])).beats();
    it.receives(Kind::Heartbeat, cancel(30_000));
    assert_eq!(shown(&it.guest(0, completed("1"))), ["send CancelAck"]);
    // One that is cancelled before it began does not begin.
    let mut it = bench(&one());
    it.begin();
    it.receives(Kind::Ack, ACCEPTED);
    assert_eq!(
        shown(&it.receives(Kind::Heartbeat, cancel(30_000))),
        ["send CancelAck"]
    );
}

#[test]
fn a_strict_orchestrator_gets_the_fields_that_it_knows() {
    let mut it = bench(&one()).beats();
    let acts = it.receives(Kind::Heartbeat, Response::UnknownField);
    assert_eq!(
        message(&acts),
        json!({"type": "Heartbeat", "lease_id": "l", "runner_id": "w1", "ts": WALL_20})
    );
    assert_eq!(it.session.mode.dialect, Dialect::Strict);
    let end = message(&it.guest(0, failed(FailureKind::TimedOut)));
    assert_eq!(
        end,
        json!({
            "type": "Complete", "lease_id": "l", "runner_id": "w1", "status": "FAILED", "exit_code": 1,
            "finished_at": WALL_20, "artifacts": [], "summary": "wasm:echo: no luck",
        })
    );
    // One that refuses an end first.
    let mut it = bench(&one()).runs();
    assert!(message(&it.guest(0, completed("1")))["timings"].is_object());
    let end = message(&it.receives(Kind::Complete, Response::UnknownField));
    assert!(end["timings"].is_null() && end["finished_at"].is_string());
    let acts = it.receives(Kind::Complete, Response::UnknownField);
    assert!(
        matches!(acts.as_slice(), [Effect::Done(Done::Refused(_))]),
        "{acts:?}"
    );
}

#[test]
fn an_end_whose_first_answer_was_lost_may_be_stale_when_it_is_repeated() {
    let mut it = bench(&one()).runs();
    it.guest(0, completed("1"));
    it.receives(Kind::Complete, Response::Again);
    assert_eq!(shown(&it.wakes()), ["send Complete"]);
    let done = it.receives(Kind::Complete, Response::Stale);
    assert_eq!(done, [Effect::Done(Done::Unanswered(Status::Succeeded))]);
    // The first answer is final.
    let mut it = bench(&one()).runs();
    it.guest(0, completed("1"));
    let done = it.receives(Kind::Complete, Response::Stale);
    assert!(matches!(done.as_slice(), [Effect::Done(Done::Refused(_))]));
}

#[test]
fn a_runner_that_is_told_to_end_stops_its_guest_and_is_silent() {
    let mut it = bench(&one()).runs();
    assert_eq!(shown(&it.event(Event::Stop)), ["stop 0 0 ShuttingDown"]);
    assert_eq!(it.guest(0, stopped()), [Effect::Done(Done::ShutDown)]);
    let mut it = bench(&one());
    it.begin();
    assert_eq!(it.event(Event::Stop), [Effect::Done(Done::ShutDown)]);
    // An end that is on its way is still delivered.
    let mut it = bench(&one()).runs();
    it.guest(0, completed("1"));
    assert_eq!(it.event(Event::Stop), []);
    let acts = it.receives(Kind::Complete, ACCEPTED);
    assert_eq!(acts, [Effect::Done(Done::Reported(Status::Succeeded))]);
}
