//! The dispatcher against a Redis in memory, with workers that the test plays, and with our own
//! worker.

mod limits;
mod nodes;
mod stops;
mod storms;

use host_core::failure::FailureKind;
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_core::suspicion::Suspicion;

use super::watch::READ_MS;
use super::*;
use crate::job::new::{NewJob, Task};
use crate::messages::Script;
use crate::tests::redis::FakeRedis;

fn id(n: u32) -> String {
    format!("3f2b8a1c-0000-4000-8000-{n:012}")
}

fn execution(n: u32) -> Execution {
    let job = NewJob {
        id: id(n),
        worker_id: "w1".to_owned(),
        task: Task::Script("40 + 2".to_owned()),
        script_type: None,
        caller_id: "host".to_owned(),
        context_id: "c".to_owned(),
        timeout_seconds: 2,
        retries: 0,
        concurrent: true,
        log_path: None,
        env: [("REGION".to_owned(), "eu".to_owned())].into(),
        dependencies: BTreeSet::new(),
        attributes: BTreeMap::new(),
    };
    Execution {
        host_job: format!("job-{n}"),
        job,
        timeout_ms: 1_500,
        deadline: None,
    }
}

struct Bench {
    redis: FakeRedis,
    dispatcher: Orchestrator,
    now: Time,
    calls: Vec<Call>,
    ended: Vec<(u64, End)>,
    ready: usize,
    refused: Vec<String>,
}

impl Bench {
    fn new() -> Self {
        let mut bench = Self {
            redis: FakeRedis::default(),
            dispatcher: Orchestrator::new("host-a"),
            now: Time(1_000),
            calls: Vec::new(),
            ended: Vec::new(),
            ready: 0,
            refused: Vec::new(),
        };
        bench.drive(Orchestrator::on_connected);
        bench
    }

    fn at(&self) -> Moment {
        Moment {
            now: self.now,
            wall: self.now,
        }
    }

    fn hand_in(&mut self, hand_in: impl FnOnce(&mut Orchestrator, Moment, &mut Acts)) {
        let (at, mut todo) = (self.at(), Vec::new());
        hand_in(&mut self.dispatcher, at, &mut todo);
        for act in todo {
            match act {
                OrchestratorAct::Call(call) => self.calls.push(call),
                OrchestratorAct::Ready => self.ready += 1,
                OrchestratorAct::Refused { why, .. } => self.refused.push(why),
                OrchestratorAct::Ended { tag, end } => self.ended.push((tag.0, end)),
            }
        }
    }

    fn drive(&mut self, hand_in: impl FnOnce(&mut Orchestrator, Moment, &mut Acts)) {
        self.hand_in(hand_in);
        while !self.calls.is_empty() {
            self.answer();
        }
    }

    /// Lets Redis answer the first call.
    fn answer(&mut self) {
        let call = self.calls.remove(0);
        self.redis.now = self.now;
        let values = self.redis.answer(&call);
        self.hand_in(|it, at, todo| it.on_reply(at, call.tag, &values, todo));
    }

    fn send(&mut self, n: u32) {
        self.drive(|it, at, todo| it.on_start(at, Tag(n.into()), execution(n), todo));
    }

    fn pass(&mut self, ms: u64) {
        let end = self.now.plus_ms(ms);
        while let Some(due) = self.dispatcher.wakeup().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.drive(Orchestrator::on_wakeup);
        }
        self.now = end;
    }

    /// Takes a job as a worker does that uses `BLPOP`.
    fn taken(&mut self, n: u32) {
        let removed = self
            .redis
            .plain(&["LREM", "hero:work_queue:w1", "0", &id(n)]);
        assert_eq!(removed, Value::Int(1), "{n} was queued");
    }

    /// Does what a worker does, as documented.
    fn worker_says(&mut self, n: u32, fields: &[(&str, &str)]) {
        self.redis.hset(&id(n), fields);
        self.pass(READ_MS);
    }

    fn outcome(&mut self) -> Outcome {
        match self.ended.pop() {
            Some((_, End::Outcome(outcome))) => outcome,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_job_is_stored_queued_and_awaited() {
    let mut bench = Bench::new();
    bench.send(1);
    let fields = [
        ("id", id(1)),
        ("caller_id", "host".to_owned()),
        ("worker_id", "w1".to_owned()),
        ("context_id", "c".to_owned()),
        ("script", "40 + 2".to_owned()),
        ("timeout", "2".to_owned()),
        ("retries", "0".to_owned()),
        ("concurrent", "true".to_owned()),
        ("status", "dispatched".to_owned()),
        ("env_vars", r#"{"REGION":"eu"}"#.to_owned()),
        ("dependencies", "[]".to_owned()),
    ];
    for (field, value) in fields {
        assert_eq!(bench.redis.field(&id(1), field), Some(value), "{field}");
    }
    assert_eq!(bench.redis.items("hero:work_queue:w1"), [id(1)]);
    bench.worker_says(1, &[("status", "started")]);
    assert!(bench.ended.is_empty());
    bench.worker_says(1, &[("status", "finished"), ("output", "42")]);
    let result = Some(JsonText("42".to_owned()));
    assert_eq!(bench.outcome(), Outcome::Completed { result });
    assert!(bench.dispatcher.is_idle());
    let out = "hero:out:host-a";
    assert_eq!(bench.redis.texts(out), [(id(1), "w1 job-1".to_owned())]);
    // A worker replies a moment after it has written the hash.
    bench.redis.push(&format!("hero:reply:{}", id(1)), "42");
    bench.pass(2_500);
    assert!(bench.redis.texts(out).is_empty());
    assert!(
        bench
            .redis
            .items(&format!("hero:reply:{}", id(1)))
            .is_empty()
    );
    assert_eq!(bench.redis.expiries[&format!("hero:job:{}", id(1))], 3_600);
}

#[test]
fn a_deployed_handler_is_named_in_its_field() {
    let mut bench = Bench::new();
    let mut named = execution(1);
    named.job.task = Task::Handler {
        name: "resize".to_owned(),
        params: JsonText("{\"w\":1}".to_owned()),
    };
    bench.drive(|it, at, todo| it.on_start(at, Tag(1), named, todo));
    assert_eq!(
        bench.redis.field(&id(1), "handler").as_deref(),
        Some("resize")
    );
    assert_eq!(
        bench.redis.field(&id(1), "script").as_deref(),
        Some("{\"w\":1}")
    );
}

#[test]
fn what_workers_write_is_read() {
    use FailureKind::{
        Cancelled, FuelExhausted, HandlerNotFound, InvalidParams, TimedOut, UserError,
    };
    let deep = "[".repeat(200) + &"]".repeat(200);
    for (output, expected) in [
        ("42", "42"),
        ("", "null"),
        ("hello", "\"hello\""),
        ("{\"a\":1}", "{\"a\":1}"),
        ("{\"a\":1,\"a\":2}", "\"{\\\"a\\\":1,\\\"a\\\":2}\""),
        ("\"x\"", "\"x\""),
        (&deep, &serde_json::Value::String(deep.clone()).to_string()),
    ] {
        let mut bench = Bench::new();
        bench.send(1);
        bench.worker_says(1, &[("status", "finished"), ("output", output)]);
        let result = Some(JsonText(expected.to_owned()));
        assert_eq!(
            bench.outcome(),
            Outcome::Completed { result },
            "{output:.20}"
        );
    }
    for (error, kind) in [
        ("timeout", TimedOut),
        ("stopped", Cancelled),
        ("stopped_by_request", Cancelled),
        ("handler_not_found: no", HandlerNotFound),
        ("fuel_exhausted: all of it", FuelExhausted),
        ("invalid_params: no", InvalidParams),
        ("E_FIELD_RANGE script: no", InvalidParams),
        ("anything", UserError),
        ("", UserError),
        (&"ü".repeat(100_000), UserError),
    ] {
        let mut bench = Bench::new();
        bench.send(1);
        bench.worker_says(1, &[("status", "error"), ("error", error)]);
        let Outcome::Failed(failure) = bench.outcome() else {
            panic!("{error:.20} is no failure")
        };
        assert_eq!(failure.kind, kind, "{error:.20}");
        assert!(!failure.message.is_empty() && failure.message.len() <= 8 << 10);
    }
}

#[test]
fn long_outputs_are_read_one_after_the_other() {
    let mut bench = Bench::new();
    let output = |n: u32| format!("\"{}\"", n.to_string().repeat(100_000));
    for n in 1..=5 {
        bench.send(n);
        let output = output(n);
        bench
            .redis
            .hset(&id(n), &[("status", "finished"), ("output", &output)]);
    }
    let mut longest = 0;
    while bench.ended.len() < 5 {
        if bench.calls.is_empty() {
            bench.now = bench.dispatcher.wakeup().unwrap().max(bench.now);
            bench.hand_in(Orchestrator::on_wakeup);
            continue;
        }
        let answer = bench.redis.answer(&bench.calls[0]);
        longest = longest.max(format!("{answer:?}").len());
        bench.answer();
    }
    let ended = bench.ended.iter().map(|(n, end)| (*n, end.clone()));
    let expected = (1..=5).map(|n| {
        let result = Some(JsonText(output(n)));
        (u64::from(n), End::Outcome(Outcome::Completed { result }))
    });
    assert!(ended.eq(expected));
    assert!(longest < 600_000, "{longest}: several concurrently");
}

#[test]
fn an_output_that_is_too_large_is_not_read() {
    let mut bench = Bench::new();
    bench.send(1);
    let output = "x".repeat((16 << 20) + 1);
    bench.worker_says(1, &[("status", "finished"), ("output", &output)]);
    let Outcome::Failed(failure) = bench.outcome() else {
        panic!("it is refused")
    };
    assert_eq!(failure.kind, FailureKind::ResultTooLarge);
    assert!(failure.message.contains("16777217"), "{}", failure.message);
}

#[test]
fn what_an_earlier_life_had_out_is_taken_back() {
    let mut bench = Bench::new();
    for n in 1..=3 {
        bench.send(n);
    }
    bench.taken(2);
    bench.worker_says(2, &[("status", "started")]);
    bench.taken(3);
    bench
        .redis
        .hset(&id(3), &[("status", "finished"), ("output", "3")]);
    // The host was killed and starts again.
    bench.dispatcher = Orchestrator::new("host-a");
    bench.ready = 0;
    bench.send(4);
    assert_eq!(bench.ended, [(4, End::NoRoom)], "it is not ready yet");
    bench.drive(Orchestrator::on_connected);
    assert_eq!(bench.ready, 1);
    // Their jobs do not come again: they were cancelled, or another node has them.
    assert_eq!(bench.redis.items("hero:work_queue:w1"), [id(1)]);
    bench.pass(10_000);
    bench.send(5);
    assert_eq!(bench.redis.items("hero:work_queue:w1"), [id(5)]);
    assert_eq!(bench.redis.items("hero:stop_queue:w1"), [id(2)]);
    assert_eq!(
        bench.redis.field(&id(1), "error").unwrap(),
        "stopped_by_request"
    );
    assert_eq!(bench.redis.field(&id(3), "status").unwrap(), "finished");
    let out: Vec<_> = bench.redis.texts("hero:out:host-a");
    let still = [(id(2), "w1".to_owned()), (id(5), "w1 job-5".to_owned())];
    assert_eq!(out, still, "one is to stop, one is new");
    for n in 1..=3 {
        assert_eq!(bench.redis.expiries[&format!("hero:job:{}", id(n))], 3_600);
    }
}

#[test]
fn jobs_that_an_earlier_life_had_sent_go_on_where_they_are() {
    let mut bench = Bench::new();
    for n in 1..=3 {
        bench.send(n);
    }
    bench.taken(2);
    bench.worker_says(2, &[("status", "started")]);
    bench.taken(3);
    bench
        .redis
        .hset(&id(3), &[("status", "finished"), ("output", "3")]);
    // The host was killed and starts again; its jobs come again with attempts of their own.
    bench.dispatcher = Orchestrator::new("host-a");
    bench.drive(Orchestrator::on_connected);
    for n in 1..=3 {
        let again = Execution {
            host_job: format!("job-{n}"),
            ..execution(n + 10)
        };
        bench.drive(|it, at, todo| it.on_start(at, Tag(u64::from(n) + 10), again, todo));
    }
    bench.pass(READ_MS);
    let result = |text: &str| {
        let result = Some(JsonText(text.to_owned()));
        End::Outcome(Outcome::Completed { result })
    };
    assert_eq!(bench.ended, [(13, result("3"))]);
    assert_eq!(bench.redis.items("hero:work_queue:w1"), [id(1)]);
    assert!(bench.redis.items("hero:stop_queue:w1").is_empty());
    bench.worker_says(2, &[("status", "finished"), ("output", "2")]);
    assert_eq!(bench.ended.last(), Some(&(12, result("2"))));
    // The next attempt of one of them is a new execution.
    let again = Execution {
        host_job: "job-2".to_owned(),
        ..execution(22)
    };
    bench.drive(|it, at, todo| it.on_start(at, Tag(22), again, todo));
    assert_eq!(bench.redis.items("hero:work_queue:w1"), [id(22), id(1)]);
    // A cancel reaches what was adopted.
    bench.drive(|it, at, todo| it.on_cancel(at, Tag(11), 100, todo));
    bench.pass(READ_MS);
    assert_eq!(bench.redis.field(&id(1), "status").unwrap(), "error");
}

#[test]
fn a_host_that_stops_takes_back_what_is_out() {
    let mut bench = Bench::new();
    for n in 1..=2 {
        bench.send(n);
    }
    bench.taken(1);
    bench.worker_says(1, &[("status", "started")]);
    bench.drive(Orchestrator::on_stop);
    assert!(bench.dispatcher.is_idle());
    assert_eq!(bench.ended.len(), 2);
    assert!(
        bench
            .ended
            .iter()
            .all(|(_, end)| matches!(end, End::Lost(_)))
    );
    assert!(bench.redis.items("hero:work_queue:w1").is_empty());
    assert_eq!(bench.redis.items("hero:stop_queue:w1"), [id(1)]);
    // The next run removes the rest. It does not continue what it had to stop: its job starts anew.
    let out = bench.redis.texts("hero:out:host-a");
    assert_eq!(out, [(id(1), "w1".to_owned())]);
    bench.ended.clear();
    bench.dispatcher = Orchestrator::new("host-a");
    bench.drive(Orchestrator::on_connected);
    let again = Execution {
        host_job: "job-1".to_owned(),
        ..execution(11)
    };
    bench.drive(|it, at, todo| it.on_start(at, Tag(11), again, todo));
    bench.worker_says(1, &[("status", "error"), ("error", "stopped_by_request")]);
    assert_eq!(bench.ended, []);
    assert_eq!(bench.redis.items("hero:work_queue:w1"), [id(11)]);
}

#[test]
fn a_host_that_drains_takes_back_jobs_that_no_worker_has_taken() {
    let mut bench = Bench::new();
    for n in 1..=3 {
        bench.send(n);
    }
    bench.taken(1);
    bench.worker_says(1, &[("status", "started")]);
    bench.taken(2);
    bench.drive(Orchestrator::on_drain);
    assert_eq!(bench.ended, [(3, End::NoRoom)], "no worker has begun it");
    for list in ["work_queue", "stop_queue"] {
        let items = bench.redis.items(&format!("hero:{list}:w1"));
        assert!(items.is_empty(), "{list}: {items:?}");
    }
    bench.worker_says(1, &[("status", "finished"), ("output", "1")]);
    bench.worker_says(2, &[("status", "finished"), ("output", "2")]);
    assert_eq!(bench.ended.len(), 3);
    bench.pass(2_500);
    assert!(bench.redis.texts("hero:out:host-a").is_empty());
}

#[test]
fn what_redis_refuses_is_told_and_asked_for_again() {
    let mut bench = Bench::new();
    let refusal = || Value::Error("OOM command not allowed".to_owned());
    bench.hand_in(|it, at, todo| it.on_start(at, Tag(1), execution(1), todo));
    let call = bench.calls.remove(0);
    bench.hand_in(|it, at, todo| {
        it.on_reply(at, call.tag, &[Value::Int(1), refusal()], todo);
    });
    assert_eq!(bench.refused, ["OOM command not allowed"]);
    bench.pass(REFUSED_PAUSE_MS);
    assert_eq!(bench.redis.items("hero:work_queue:w1"), [id(1)]);
}

#[test]
fn an_assignment_becomes_a_hash() {
    let assignment = |handler: &str, params: &str| host_core::port::Assignment {
        request_id: "r".to_owned(),
        job_id: "j".to_owned(),
        handler: handler.to_owned(),
        params: JsonText(params.to_owned()),
        queue: "night".to_owned(),
        priority: 5,
        attempt: 1,
        enqueued_at: Time(0),
        timeout_ms: 10,
        deadline: None,
        trace: Vec::new(),
        attributes: vec![("caller_id".to_owned(), "alice".to_owned())],
        worker_id: "host".to_owned(),
        suspicion: Suspicion::NONE,
    };
    let of = |handler, params| Execution::of(assignment(handler, params), "w1", id(1));
    let named = of("resize", "{\"w\":1}").unwrap();
    assert_eq!(
        (named.job.caller_id.as_str(), named.job.context_id.as_str()),
        ("alice", "night")
    );
    let script = of("script", "{\"script\":\"40 + 2\",\"more\":1}").unwrap();
    assert_eq!(script.job.task, Task::Script("40 + 2".to_owned()));
    for params in ["{}", "[]", "{\"script\":7}", "{\"script\":\"\"}"] {
        let failure = of("script", params).unwrap_err();
        assert_eq!(failure.kind, FailureKind::InvalidParams, "{params}");
        assert!(!failure.is_retryable() && failure.message.contains("params.script"));
    }
}

#[test]
fn a_hash_that_is_gone_is_a_loss() {
    let mut bench = Bench::new();
    bench.send(1);
    bench.redis.keys.remove(&format!("hero:job:{}", id(1)));
    bench.pass(READ_MS);
    assert!(
        matches!(&bench.ended[..], [(1, End::Lost(_))]),
        "{:?}",
        bench.ended
    );
}

#[test]
fn what_was_not_confirmed_is_sent_again_and_queued_once() {
    let mut bench = Bench::new();
    bench.hand_in(|it, at, todo| it.on_start(at, Tag(1), execution(1), todo));
    let lost = bench.calls.remove(0);
    bench.redis.answer(&lost);
    bench.dispatcher.on_disconnected();
    bench.hand_in(|it, at, todo| it.on_start(at, Tag(2), execution(2), todo));
    assert_eq!(bench.ended.pop(), Some((2, End::NoRoom)), "Redis is away");
    bench.drive(Orchestrator::on_connected);
    assert_eq!(bench.redis.items("hero:work_queue:w1"), [id(1)]);
    bench.worker_says(1, &[("status", "finished"), ("output", "1")]);
    assert_eq!(bench.ended.len(), 1);
}

#[test]
fn the_attributes_of_a_job_reach_its_worker() {
    let attributes = [
        ("context_id", "c"),
        ("env.REGION", "eu"),
        ("env.NOT-A-NAME", "x"),
        ("log_path", "jobs/1.log"),
        ("tenant", "t"),
    ];
    let assignment = host_core::port::Assignment {
        request_id: "r".to_owned(),
        job_id: "j".to_owned(),
        handler: "resize".to_owned(),
        params: JsonText("{}".to_owned()),
        queue: "night".to_owned(),
        attempt: 1,
        enqueued_at: Time(0),
        timeout_ms: 10,
        deadline: None,
        trace: Vec::new(),
        attributes: attributes
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
        priority: 5,
        worker_id: "host".to_owned(),
        suspicion: Suspicion::NONE,
    };
    let sent = Execution::of(assignment, "w1", id(1)).unwrap();
    let fields = sent.job.fields(Time(0));
    let field = |name: &str| {
        let found = fields.iter().find(|(other, _)| *other == name);
        found.map(|(_, value)| value.as_str())
    };
    assert_eq!(field("context_id"), Some("c"));
    assert_eq!(field("env_vars"), Some(r#"{"REGION":"eu"}"#));
    assert_eq!(field("log_path"), Some("jobs/1.log"));
    let others = r#"{"env.NOT-A-NAME":"x","tenant":"t"}"#;
    assert_eq!(field("attributes"), Some(others));
}
