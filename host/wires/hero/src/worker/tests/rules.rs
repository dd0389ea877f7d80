//! What a worker does with valid jobs.

use host_core::failure::FailureKind;
use host_core::outcome::Outcome;
use serde_json::json;

use super::fixture::{Bench, completed, failed, id};
use crate::messages::PopSide;
use crate::settings::worker::WorkerConfig;
use crate::transport::driver::RedisSession as _;
use crate::worker::ExecutionAnswer;
use crate::worker::Worker;
use host_core::port::Stop;

#[test]
fn jobs_that_rest_take_no_room_and_keep_the_number_of_their_attempt() {
    let mut bench = Bench::with(|config| config.concurrency = 4);
    // More than may be parked, each in its second retry.
    for n in 1..=1_100 {
        bench.enqueue(n, &[("retries", "10"), ("attempt", "2")]);
        bench.end(n, failed(FailureKind::UserError, "no luck"));
    }
    assert_eq!(
        (bench.worker.jobs.len(), bench.status(1).as_str()),
        (0, "dispatched")
    );
    bench.enqueue(2_000, &[]);
    bench.end(2_000, completed("1"));
    assert_eq!(bench.status(2_000), "finished");
    // Another host of the worker id takes them when their time has come.
    let redis = std::mem::take(&mut bench.redis);
    let mut other = Bench::unconnected(Worker::new(WorkerConfig::new("w1", "host-b")));
    (other.redis, other.now) = (redis, bench.now);
    other.connect();
    other.pass(1_500);
    assert_eq!(other.running(), [0_u32; 0]);
    other.pass(1_600);
    let attempts: Vec<u32> = other.guests.values().map(|job| job.attempt).collect();
    assert!(
        !attempts.is_empty() && attempts.iter().all(|attempt| *attempt == 3),
        "{attempts:?}"
    );
}

#[test]
fn a_job_that_rests_can_be_stopped() {
    let mut bench = Bench::new();
    bench.enqueue(1, &[("retries", "10"), ("attempt", "9")]);
    bench.end(1, failed(FailureKind::UserError, "no luck"));
    assert_eq!(bench.worker.jobs.len(), 0);
    bench.pass(1_000);
    bench.redis.push("hero:stop_queue:w1", &id(1));
    bench.pass(3_000);
    assert_eq!(
        (bench.status(1).as_str(), bench.error(1).as_str()),
        ("error", "stopped_by_request")
    );
}

#[test]
fn a_job_is_taken_run_and_written_down() {
    let mut bench = Bench::new();
    bench.enqueue(
        1,
        &[
            ("caller_id", "alice"),
            ("context_id", "c"),
            ("timeout", "2"),
        ],
    );
    assert_eq!(
        (bench.status(1), bench.list("processing")),
        ("started".to_owned(), vec![id(1)])
    );
    let job = bench.guests.values().next().unwrap();
    assert_eq!(
        (job.handler.as_str(), job.wire, job.attempt),
        ("hero.rhai", "hero", 1)
    );
    assert_eq!((job.deadline, job.timeout_ms), (None, Some(2_000)));
    assert_eq!(
        job.attributes[0],
        ("caller_id".to_owned(), "alice".to_owned())
    );
    bench.end(1, completed("42"));
    assert_eq!(bench.status(1), "finished");
    assert_eq!(bench.redis.field(&id(1), "output").as_deref(), Some("42"));
    assert_eq!(bench.reply(1), ["42"]);
    assert_eq!(
        bench.redis.expiries[&format!("hero:reply:{}", id(1))],
        3_600
    );
    assert!(bench.list("processing").is_empty() && bench.worker.is_idle());
    assert_eq!(
        bench.redis.field(&id(1), "caller_id").as_deref(),
        Some("alice"),
        "kept"
    );
}

#[test]
fn outputs_are_raw_and_errors_are_replied() {
    use FailureKind::{MemoryLimit, TimedOut};
    #[rustfmt::skip]
    let table = [
        (completed("\"a b\""), "finished", "a b", "a b".to_owned()),
        (completed("{\"a\":1}"), "finished", "{\"a\":1}", "{\"a\":1}".to_owned()),
        (completed("null"), "finished", "", String::new()),
        (failed(TimedOut, "long"), "error", "timeout", json!({"error": "timeout"}).to_string()),
        (failed(MemoryLimit, "m"), "error", "memory_limit: m", json!({"error": "memory_limit: m"}).to_string()),
        (failed(FailureKind::FuelExhausted, "f"), "error", "fuel_exhausted: f", json!({"error": "fuel_exhausted: f"}).to_string()),
        (Outcome::Cancelled { partial: None }, "error", "stopped_by_request", json!({"error": "stopped_by_request"}).to_string()),
    ];
    for (outcome, status, text, reply) in table {
        let mut bench = Bench::new();
        bench.enqueue(1, &[]);
        bench.end(1, outcome);
        assert_eq!(bench.status(1), status, "{text}");
        let field = if status == "finished" {
            "output"
        } else {
            "error"
        };
        assert_eq!(bench.redis.field(&id(1), field).as_deref(), Some(text));
        assert_eq!(bench.reply(1), [reply]);
    }
}

#[test]
fn a_hash_that_goes_away_is_not_made_anew() {
    let mut bench = Bench::new();
    let alone = [("concurrent", "false")];
    bench.enqueue(1, &alone);
    bench.enqueue(2, &alone);
    for n in [1, 2] {
        bench.redis.keys.remove(&format!("hero:job:{}", id(n)));
    }
    for n in [1, 2] {
        bench.end(n, completed("1"));
        assert_eq!(bench.reply(n), ["1"], "the client that waits gets a reply");
        assert_eq!(bench.status(n), "");
    }
    assert!(bench.worker.is_idle() && bench.list("processing").is_empty());
}

#[test]
fn what_an_earlier_run_left_behind_is_gone() {
    let mut bench = Bench::new();
    bench.enqueue(1, &[("error", "timeout")]);
    bench.end(1, completed("1"));
    assert_eq!(bench.redis.field(&id(1), "error"), None);
    bench.enqueue(2, &[("output", "forged")]);
    bench.end(2, failed(FailureKind::UserError, "no"));
    assert_eq!(bench.redis.field(&id(2), "output"), None);
    assert_eq!(bench.status(2), "error");
}

#[test]
fn the_oldest_is_first_unless_configured_otherwise() {
    for (side, order) in [
        (PopSide::Right, vec![1, 2, 3]),
        (PopSide::Left, vec![3, 2, 1]),
    ] {
        let mut bench = Bench::with(|config| {
            config.pop_side = side;
            config.concurrency = 1;
        });
        bench.disconnect();
        for n in 1..=3 {
            bench.redis.enqueue("w1", &id(n), &[("script", "1")]);
        }
        bench.connect();
        let mut ran = Vec::new();
        while let Some(n) = bench.running().first().copied() {
            ran.push(n);
            assert_eq!(bench.running().len(), 1, "one at a time");
            bench.end(n, completed("1"));
        }
        assert_eq!(ran, order, "{side:?}");
    }
}

#[test]
fn jobs_of_a_context_run_one_after_the_other_if_they_say_so() {
    let mut bench = Bench::new();
    let alone = |context: &'static str| [("concurrent", "false"), ("context_id", context)];
    bench.enqueue(1, &alone("a"));
    bench.enqueue(2, &alone("a"));
    bench.enqueue(3, &alone("b"));
    bench.enqueue(4, &[("context_id", "a")]);
    bench.enqueue(5, &alone("a"));
    assert_eq!(bench.running(), [1, 3, 4]);
    bench.end(1, completed("1"));
    assert_eq!(bench.running(), [3, 4, 2]);
    bench.end(2, failed(FailureKind::Trapped, "x"));
    assert_eq!(bench.running(), [3, 4, 5]);
}

#[test]
fn a_job_waits_for_those_it_depends_on() {
    let mut bench = Bench::new();
    let on = |all: &[u32]| json!(all.iter().map(|n| id(*n)).collect::<Vec<_>>()).to_string();
    bench.enqueue(
        3,
        &[("prerequisites", &on(&[1])), ("dependencies", &on(&[2]))],
    );
    bench.enqueue(1, &[]);
    assert_eq!(bench.running(), [1]);
    bench.end(1, completed("1"));
    assert!(bench.running().is_empty(), "2 is not there yet");
    bench.pass(1_000);
    bench.redis.hset(&id(2), &[("status", "finished")]);
    bench.pass(250);
    assert_eq!(bench.running(), [3]);
    bench.enqueue(4, &[("dependencies", &on(&[5]))]);
    bench.enqueue(5, &[]);
    bench.end(5, failed(FailureKind::InvalidParams, "bad"));
    assert_eq!(bench.error(4), format!("prerequisite_failed: {}", id(5)));
}

#[test]
fn a_crowd_that_waits_lets_through_what_it_waits_for() {
    for side in [PopSide::Right, PopSide::Left] {
        let mut bench = Bench::with(|config| config.pop_side = side);
        let missing = format!("[\"{}\"]", id(9_000));
        let on_last = format!("[\"{}\"]", id(9_001));
        // The far end of the queue is where what comes last is taken last.
        let crowd = [("script", "1"), ("prerequisites", &missing)];
        for n in 1..=1_200 {
            bench.redis.enqueue("w1", &id(n), &crowd);
        }
        bench.redis.enqueue(
            "w1",
            &id(2_001),
            &[("script", "1"), ("prerequisites", &on_last)],
        );
        bench.redis.enqueue("w1", &id(9_001), &[("script", "1")]);
        if side == PopSide::Left {
            bench.redis.reverse("hero:work_queue:w1");
        }
        bench.settle();
        assert!(bench.running().is_empty(), "it is behind too many others");
        bench.pass(5_000);
        assert_eq!(bench.running(), [9_001]);
        bench.end(9_001, completed("1"));
        bench.pass(30_000);
        assert_eq!(bench.running(), [2_001]);
        assert!(
            bench.written.len() < 200_000,
            "{} commands",
            bench.written.len()
        );
        let waiting = bench.list("work_queue").len() + bench.list("processing").len();
        assert_eq!(waiting, 1_201, "none is lost");
    }
}

#[test]
fn jobs_that_wait_for_each_other_are_refused_with_the_path() {
    let mut bench = Bench::new();
    let on = |n: u32| json!([id(n)]).to_string();
    bench.enqueue(1, &[("dependencies", &on(2))]);
    bench.enqueue(2, &[("dependencies", &on(3))]);
    bench.enqueue(3, &[("dependencies", &on(1))]);
    let (a, b, c) = (id(1), id(2), id(3));
    let error = bench.error(3);
    assert!(error.starts_with("E_DEP_CYCLE"), "{error}");
    assert!(
        error.ends_with(&format!("{c} -> {a} -> {b} -> {c}")),
        "{error}"
    );
    assert_eq!(bench.error(2), format!("prerequisite_failed: {c}"));
    assert_eq!(bench.error(1), format!("prerequisite_failed: {b}"));
}

#[test]
fn retries_are_made_and_counted() {
    let mut bench = Bench::new();
    bench.enqueue(1, &[("retries", "2")]);
    // The second wait is long enough to rest in Redis.
    for (wait_ms, status) in [(1_000, "started"), (2_000, "dispatched")] {
        bench.end(1, failed(FailureKind::Trapped, "again"));
        assert_eq!(bench.status(1), status);
        bench.pass(wait_ms - 1);
        assert!(bench.guest(1).is_none());
        bench.pass(1);
        assert!(bench.guest(1).is_some());
    }
    bench.end(1, failed(FailureKind::CellLost, "not its fault"));
    assert_eq!(
        bench.guests.values().next().unwrap().attempt,
        3,
        "that does not count"
    );
    bench.end(1, failed(FailureKind::Trapped, "for good"));
    assert_eq!(bench.error(1), "trapped: for good");
    bench.enqueue(2, &[("retries", "5")]);
    bench.end(2, failed(FailureKind::InvalidParams, "no use"));
    assert_eq!(bench.error(2), "invalid_params: no use");
    bench.enqueue(3, &[("retries", "1")]);
    let reason = "later".to_owned();
    let after_ms = Some(30);
    bench.end(3, Outcome::Retry { reason, after_ms });
    bench.pass(999);
    assert!(bench.guest(3).is_none(), "the backoff is longer");
    bench.pass(1);
    bench.end(3, completed("3"));
    assert_eq!(bench.status(3), "finished");
}

#[test]
fn a_job_that_takes_cells_with_it_ends() {
    let mut bench = Bench::new();
    bench.enqueue(1, &[]);
    for _ in 0..4 {
        bench.end(1, failed(FailureKind::CellLost, "gone"));
    }
    assert_eq!(bench.error(1), "cell_lost: gone");
}

#[test]
fn a_stop_reaches_a_job_wherever_it_is() {
    let mut bench = Bench::with(|config| config.concurrency = 2);
    let waits = json!([id(9)]).to_string();
    bench.disconnect();
    bench.redis.push("hero:stop_queue:w1", &id(1));
    bench.redis.enqueue("w1", &id(1), &[("script", "1")]);
    bench.connect();
    assert_eq!(bench.error(1), "stopped_by_request", "before it started");
    assert!(bench.running().is_empty());

    bench.enqueue(2, &[]);
    bench.enqueue(3, &[("dependencies", &waits)]);
    for n in [2, 3] {
        bench.redis.push("hero:stop_queue:w1", &id(n));
    }
    bench.pass(100);
    assert_eq!(bench.error(3), "stopped_by_request", "while it waited");
    let tag = bench.guest(2).unwrap();
    assert_eq!(bench.stops, [(tag, 100, Stop::Cancelled)]);
    bench.pass(500);
    assert_eq!(bench.stops.len(), 1, "one stop is requested");
    bench.end(2, completed("2"));
    assert_eq!(bench.error(2), "stopped_by_request", "the stop was first");
    bench.pass(10_000);
    assert!(
        bench.list("stop_queue").is_empty(),
        "requests that are done are gone"
    );
}

#[test]
fn stops_for_others_age_and_those_for_ended_jobs_go() {
    let mut bench = Bench::new();
    bench.enqueue(1, &[]);
    bench.end(1, completed("1"));
    for entry in [id(1), id(7), "no id at all".to_owned()] {
        bench.redis.push("hero:stop_queue:w1", &entry);
    }
    bench.pass(10_000);
    assert_eq!(bench.list("stop_queue"), [id(7)]);
    bench.pass(600_000);
    assert!(bench.list("stop_queue").is_empty());
}

#[test]
fn a_guest_that_does_not_end_is_stopped_and_timed_out() {
    let mut bench = Bench::new();
    bench.enqueue(1, &[("timeout", "3")]);
    bench.pass(3_499);
    assert!(bench.stops.is_empty());
    bench.pass(1);
    let tag = bench.guest(1).unwrap();
    assert_eq!(bench.stops, [(tag, 0, Stop::Deadline)]);
    bench.end(1, failed(FailureKind::Cancelled, "by force"));
    assert_eq!(bench.error(1), "timeout");
}

#[test]
fn no_more_is_taken_than_there_is_room_for() {
    let mut bench = Bench::with(|config| config.concurrency = 3);
    for n in 1..=10 {
        bench.enqueue(n, &[]);
    }
    assert_eq!(bench.running(), [1, 2, 3]);
    assert_eq!(
        bench.list("work_queue").len() + bench.list("processing").len(),
        10
    );
    assert_eq!(bench.list("processing").len(), 3);
    bench.end(2, completed("2"));
    assert_eq!(bench.running(), [1, 3, 4]);
}

#[test]
fn cells_without_room_are_asked_again() {
    let mut bench = Bench::new();
    bench.enqueue(1, &[]);
    let tag = bench.guest(1).unwrap();
    bench.guests.clear();
    bench.drive(|worker, at, todo| worker.on_answer(at, tag, ExecutionAnswer::Busy, todo));
    assert!(bench.running().is_empty());
    bench.pass(50);
    assert_eq!(bench.running(), [1]);
}

#[test]
fn results_are_delivered_when_redis_is_back() {
    let mut bench = Bench::new();
    bench.enqueue(1, &[]);
    bench.enqueue(2, &[("timeout", "600")]);
    bench.disconnect();
    bench.end(1, completed("1"));
    assert_eq!(
        (bench.status(1), bench.running()),
        ("started".to_owned(), vec![2])
    );
    bench.pass(60_000);
    bench.connect();
    assert_eq!(
        (bench.status(1), bench.reply(1)),
        ("finished".to_owned(), vec!["1".to_owned()])
    );
    bench.end(2, completed("2"));
    assert_eq!(bench.status(2), "finished");
    assert!(bench.worker.is_idle());
}

#[test]
fn a_host_that_starts_again_takes_its_own_back_at_once_and_others_later() {
    use crate::settings::worker::WorkerConfig;
    use crate::worker::Worker;
    let again = |dead: Bench, instance: &str| {
        let worker = Worker::new(WorkerConfig::new("w1", instance));
        let mut bench = Bench::unconnected(worker);
        bench.now = dead.now;
        bench.redis = dead.redis;
        bench.connect();
        bench
    };
    let mut dead = Bench::new();
    dead.enqueue(1, &[]);
    let mut bench = again(dead, "host-a");
    assert_eq!(bench.running(), [1]);
    bench.pass(4_000);
    let mut other = again(bench, "host-b");
    other.pass(14_999);
    assert!(
        other.running().is_empty(),
        "the claim holds, and then one more read"
    );
    other.pass(6_000);
    assert_eq!(other.running(), [1]);
    other.end(1, completed("1"));
    assert_eq!(other.reply(1), ["1"]);
}

#[test]
fn a_stopping_host_gives_its_jobs_back() {
    let mut bench = Bench::new();
    let waits = json!([id(9)]).to_string();
    bench.enqueue(1, &[]);
    bench.enqueue(2, &[("dependencies", &waits)]);
    bench.enqueue(3, &[]);
    bench.drive(Worker::on_stop);
    assert_eq!(bench.stops.len(), 2);
    bench.end(1, failed(FailureKind::Cancelled, "the host stops"));
    bench.end(3, completed("3"));
    assert!(bench.worker.is_idle());
    assert_eq!(
        (bench.status(1), bench.status(3)),
        ("dispatched".to_owned(), "finished".to_owned())
    );
    assert_eq!(
        bench.list("work_queue"),
        [id(2), id(1)],
        "the next one is 1"
    );
    assert!(bench.list("processing").is_empty());
}

#[test]
fn what_is_popped_while_its_end_is_on_its_way_is_taken_anew() {
    let mut bench = Bench::new();
    bench.enqueue(1, &[]);
    let tag = bench.guest(1).unwrap();
    bench.guests.remove(&tag);
    let answer = ExecutionAnswer::Ended(failed(FailureKind::InvalidParams, "no"));
    bench.hand_in(|worker, at, todo| worker.on_answer(at, tag, answer, todo));
    let finish = bench.calls.pop().unwrap();
    let values = bench.redis.answer(&finish);
    assert_eq!(bench.status(1), "error");
    // Its sender has seen that and acts before our answer arrives on another connection.
    bench
        .redis
        .enqueue("w1", &id(1), &[("status", "dispatched")]);
    bench.settle();
    bench.drive(|worker, at, todo| worker.on_reply(at, finish.tag, &values, todo));
    assert_eq!(
        (bench.running(), bench.list("processing")),
        (vec![1], vec![id(1)])
    );
    assert!(bench.list("dead_letter").is_empty());
    bench.end(1, completed("2"));
    assert_eq!(bench.status(1), "finished");
}

#[test]
fn what_another_host_ends_while_it_is_read_is_no_dead_letter() {
    let mut bench = Bench::unconnected(Worker::new(WorkerConfig::new("w1", "host-a")));
    bench.redis.hset(&id(1), &[("status", "finished")]);
    bench.redis.push("hero:processing:w1", &id(1));
    bench.connect();
    assert!(bench.list("processing").is_empty());
    assert!(bench.list("dead_letter").is_empty() && bench.counted.is_empty());
    assert!(bench.worker.is_idle());
}

#[test]
fn ended_hashes_are_forgotten_in_time_if_so_configured() {
    let mut bench = Bench::with(|config| config.job_ttl_seconds = 60);
    bench.enqueue(1, &[("timeout", "7200")]);
    bench.end(1, completed("1"));
    assert_eq!(bench.redis.expiries[&format!("hero:job:{}", id(1))], 60);
    assert_eq!(
        bench.redis.expiries[&format!("hero:reply:{}", id(1))],
        7_200
    );
}

#[test]
fn the_model_does_what_was_observed_of_redis() {
    use crate::messages::{Call, CallTag, Value, Via, job_key, plain, pop};
    use crate::tests::redis::FakeRedis;
    let observed = include_str!("../../../tests/golden/hero-observations.txt");
    let mut redis = FakeRedis::default();
    let mut answer = |command| {
        let commands = vec![command];
        let tag = CallTag(0);
        let via = Via::Shared;
        redis.answer(&Call { tag, via, commands }).remove(0)
    };
    for job in ["j1", "j2", "j3"] {
        answer(plain(&["LPUSH", "hero:work_queue:w1", job]));
    }
    let popped: Vec<Value> = (0..3).map(|_| answer(pop("w1", PopSide::Left))).collect();
    let order = observed.split("-> ").nth(1).unwrap();
    let expected: Vec<Value> = order
        .split_whitespace()
        .take(3)
        .map(|job| Value::Data(job.as_bytes().to_vec()))
        .collect();
    assert_eq!(popped, expected, "the newest first from the left");
    let queue = job_key("actor_queue:osis");
    answer(plain(&["LPUSH", &queue, "x"]));
    let Value::Error(error) = answer(plain(&["HGET", &queue, "status"])) else {
        panic!("a list has no fields")
    };
    let named = error.split(' ').next().unwrap();
    assert!(observed.trim_end().ends_with(named), "{error}");
}

#[test]
fn what_waits_and_runs_is_reported_every_few_seconds() {
    let mut bench = Bench::with(|config| config.concurrency = 2);
    assert_eq!(bench.depth, (0, 0));
    for n in 1..=5 {
        bench.enqueue(n, &[("timeout", "600")]);
    }
    bench.pass(5_000);
    assert_eq!(bench.depth, (3, 2));
}
