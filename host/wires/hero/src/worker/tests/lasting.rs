//! What must hold for a long time or in spite of Redis: stops, retries, circles, unconfirmed writes.

use host_core::failure::FailureKind;
use serde_json::json;

use super::fixture::{Bench, completed, failed, id};
use crate::messages::{Call, Command, Script, Via};
use crate::tests::redis::Entry;
use crate::transport::driver::RedisSession as _;
use crate::worker::{ExecutionAnswer, Worker};

const TEN_MINUTES_MS: u64 = 600_000;

#[test]
fn a_stop_for_a_queued_job_holds_as_long_as_its_hash() {
    let mut bench = Bench::new();
    // Its sender has been promised that it will be stopped; it is in the queue of a busy worker.
    bench
        .redis
        .hset(&id(1), &[("status", "dispatched"), ("script", "1")]);
    bench.redis.push("hero:stop_queue:w1", &id(1));
    // There is no such job.
    bench.redis.push("hero:stop_queue:w1", &id(2));
    bench.pass(TEN_MINUTES_MS + 20_000);
    assert_eq!(bench.list("stop_queue"), [id(1)]);
    bench.pass(4 * TEN_MINUTES_MS);
    assert_eq!(bench.list("stop_queue"), [id(1)]);
    bench.redis.push("hero:work_queue:w1", &id(1));
    bench.settle();
    bench.pass(100);
    assert!(bench.guests.is_empty());
    assert_eq!(bench.error(1), "stopped_by_request");
    assert!(bench.list("stop_queue").is_empty());
}

#[test]
fn a_stop_for_a_job_that_others_end_goes_in_time() {
    let mut bench = Bench::new();
    bench.redis.hset(&id(1), &[("status", "started")]);
    bench.redis.push("hero:stop_queue:w1", &id(1));
    bench.pass(20_000);
    bench.redis.hset(&id(1), &[("status", "error")]);
    bench.pass(TEN_MINUTES_MS + 20_000);
    assert!(bench.list("stop_queue").is_empty());
}

#[test]
fn jobs_that_wait_for_a_retry_leave_their_room_to_others() {
    let mut bench = Bench::with(|config| config.concurrency = 1);
    bench.enqueue(1, &[("retries", "10")]);
    for _ in 0..6 {
        bench.end(1, failed(FailureKind::Trapped, "no"));
        bench.enqueue(2, &[]);
        assert_eq!(bench.running(), [2]);
        bench.end(2, completed("2"));
        assert_eq!(bench.status(2), "finished");
        bench.redis.keys.remove(&format!("hero:job:{}", id(2)));
        bench.pass(64_000);
        assert_eq!(bench.running(), [1]);
    }
}

#[test]
fn a_job_without_room_in_the_cells_keeps_its_place() {
    let mut bench = Bench::with(|config| config.concurrency = 1);
    bench.has_room = false;
    bench.enqueue(1, &[]);
    bench.end_with(1, ExecutionAnswer::Busy);
    bench.enqueue(2, &[]);
    assert_eq!(bench.list("work_queue"), [id(2)]);
    bench.pass(50);
    assert_eq!(bench.running(), [1]);
}

#[test]
fn the_time_limit_begins_when_the_guest_does() {
    let mut bench = Bench::new();
    bench.has_room = false;
    bench.enqueue(1, &[("timeout", "1")]);
    bench.pass(20_000);
    assert_eq!(bench.status(1), "dispatched", "nothing has started");
    assert!(bench.stops.is_empty());
    let tag = bench.guest(1).unwrap();
    bench.drive(|worker, at, todo| worker.on_began(at, tag, todo));
    assert_eq!(bench.status(1), "started");
    bench.pass(1_499);
    assert!(bench.stops.is_empty());
    bench.pass(1);
    assert_eq!(bench.stops.len(), 1);
    bench.end(1, failed(FailureKind::Cancelled, "by force"));
    assert_eq!(bench.error(1), "timeout");
}

#[test]
fn a_circle_through_another_host_is_found() {
    let mut bench = Bench::new();
    let waits = |n: u32| json!([id(n)]).to_string();
    // 1 waits for 2, which another host has, which waits for 3, which no host has taken, and so on.
    bench.redis.hset(
        &id(2),
        &[("status", "dispatched"), ("prerequisites", &waits(3))],
    );
    let queued = [
        ("status", "dispatched"),
        ("dependencies", &waits(9)),
        ("waits_for", &waits(1)),
    ];
    bench.redis.hset(&id(3), &queued);
    bench.enqueue(1, &[("dependencies", &waits(2))]);
    bench.enqueue(4, &[("dependencies", &waits(1))]);
    bench.pass(3_000);
    let path = format!("{} -> {} -> {} -> {}", id(1), id(2), id(3), id(1));
    assert!(
        bench.error(1).starts_with("E_DEP_CYCLE"),
        "{}",
        bench.error(1)
    );
    assert!(bench.error(1).ends_with(&path), "{}", bench.error(1));
    assert_eq!(bench.error(4), format!("prerequisite_failed: {}", id(1)));
    assert!(bench.worker.is_idle());
}

#[test]
fn a_circle_whose_first_job_is_another_host_s_is_left_to_it_at_first() {
    let mut bench = Bench::new();
    let waits = |n: u32| json!([id(n)]).to_string();
    bench.redis.hset(
        &id(1),
        &[("status", "dispatched"), ("dependencies", &waits(2))],
    );
    bench.enqueue(2, &[("dependencies", &waits(1))]);
    bench.pass(3_000);
    assert_eq!(bench.error(2), "");
    bench.pass(2_000);
    assert!(
        bench.error(2).starts_with("E_DEP_CYCLE"),
        "{}",
        bench.error(2)
    );
}

#[test]
fn a_job_that_has_begun_waits_for_no_other() {
    let mut bench = Bench::new();
    let waits = |n: u32| json!([id(n)]).to_string();
    bench.redis.hset(
        &id(2),
        &[("status", "started"), ("dependencies", &waits(1))],
    );
    bench.enqueue(1, &[("dependencies", &waits(2))]);
    bench.pass(30_000);
    assert_eq!(bench.status(1), "dispatched");
    bench.redis.hset(&id(2), &[("status", "finished")]);
    bench.pass(500);
    assert_eq!(bench.running(), [1]);
}

#[test]
fn an_end_that_is_not_written_frees_no_other_job() {
    for (holder, status) in [(Some("host-b"), "started"), (None, "error")] {
        let mut bench = Bench::new();
        bench.enqueue(1, &[]);
        bench.enqueue(2, &[("dependencies", &json!([id(1)]).to_string())]);
        if let Some(holder) = holder {
            bench.redis.claim(&id(1), holder);
        }
        bench.redis.hset(&id(1), &[("status", status)]);
        bench.end(1, completed("1"));
        assert!(bench.running().is_empty(), "{status}");
        bench.pass(1_000);
        let expected = if status == "error" {
            "error"
        } else {
            "dispatched"
        };
        assert_eq!(bench.status(2), expected);
    }
}

#[test]
fn what_redis_has_not_confirmed_is_written_again() {
    let mut bench = Bench::new();
    bench.enqueue(1, &[]);
    bench.redis.hset(&id(1), &[("status", "dispatched")]);
    // The connection is lost before the answer to the start has come.
    let mut other = Bench::new();
    other.has_room = false;
    other.enqueue(1, &[]);
    let tag = other.guest(1).unwrap();
    other.hand_in(|worker, at, todo| worker.on_began(at, tag, todo));
    other.disconnect();
    assert_eq!(other.status(1), "dispatched");
    other.pass(5_000);
    other.connect();
    assert_eq!(other.status(1), "started");
    let written = other.redis.field(&id(1), "updated_at");
    assert_eq!(
        written.as_deref(),
        Some("1970-01-01T00:00:01.000Z"),
        "when it began"
    );
}

#[test]
fn what_redis_refuses_is_written_again() {
    // A start.
    let mut bench = Bench::new();
    bench.has_room = false;
    bench.enqueue(1, &[]);
    let tag = bench.guest(1).unwrap();
    bench.redis.refuses = Some("OOM command not allowed");
    bench.drive(|worker, at, todo| worker.on_began(at, tag, todo));
    assert_eq!(bench.status(1), "dispatched");
    bench.redis.refuses = None;
    bench.pass(1_000);
    assert_eq!(bench.status(1), "started");
    // A give-back.
    bench.redis.refuses = Some("OOM command not allowed");
    bench.drive(Worker::on_stop);
    bench.end(1, failed(FailureKind::Cancelled, "the host stops"));
    assert!(bench.list("work_queue").is_empty() && !bench.worker.is_idle());
    bench.redis.refuses = None;
    bench.pass(1_000);
    assert_eq!(bench.list("work_queue"), [id(1)]);
    assert!(bench.worker.is_idle());
}

#[test]
fn a_dead_letter_is_written_before_its_id_is_forgotten() {
    let mut bench = Bench::new();
    bench.redis.push("hero:processing:w1", "no-uuid");
    bench.redis.refuses = Some("OOM command not allowed");
    bench.pass(5_000);
    assert_eq!(bench.list("processing"), ["no-uuid"]);
    bench.redis.refuses = None;
    bench.pass(1_000);
    assert!(bench.list("processing").is_empty());
    assert_eq!(bench.list("dead_letter").len(), 1);
    // The same over a lost connection.
    bench.redis.push("hero:work_queue:w1", "other");
    bench.hand_in(|worker, at, todo| {
        worker.on_wakeup(at, todo);
    });
    while bench.list("processing").is_empty() {
        let call = bench.calls.remove(0);
        bench.answer(&call);
    }
    bench.disconnect();
    bench.connect();
    bench.pass(10_000);
    assert!(bench.list("processing").is_empty());
    assert_eq!(bench.list("dead_letter").len(), 2);
}

#[test]
fn a_dead_letter_does_not_take_the_id_of_a_job_that_can_run_by_now() {
    let mut bench = Bench::new();
    bench.enqueue(1, &[]);
    let saved = bench.redis.clone();
    bench.end(1, completed("1"));
    bench.redis.push("hero:work_queue:w1", &id(1));
    let is_letter = |call: &Call| {
        matches!(
            &call.commands[0],
            Command::Script {
                script: Script::Bury,
                ..
            }
        )
    };
    while !bench.calls.iter().any(is_letter) {
        let call = bench.calls.remove(0);
        bench.answer(&call);
    }
    // Redis restarts with what it had saved: the job has not ended.
    bench.disconnect();
    bench.redis = saved;
    bench.connect();
    bench.pass(10_000);
    assert_eq!(bench.running(), [1]);
    bench.end(1, completed("1"));
    assert_eq!(bench.status(1), "finished");
    assert!(bench.list("processing").is_empty());
}

#[test]
fn a_large_output_goes_once_on_a_connection_of_its_own_while_its_claim_holds() {
    let mut bench = Bench::new();
    bench.enqueue(1, &[]);
    let tag = bench.guest(1).unwrap();
    bench.guests.remove(&tag);
    let output = "x".repeat(16 << 20);
    let answer = ExecutionAnswer::Ended(completed(&format!("\"{output}\"")));
    bench.hand_in(|worker, at, todo| worker.on_answer(at, tag, answer, todo));
    let place = bench.calls.iter().position(|call| call.via == Via::Own);
    let finish = bench.calls.remove(place.unwrap());
    let bytes = finish.bytes();
    assert!((16 << 20..17 << 20).contains(&bytes), "{bytes} bytes");
    // It is on its way for a long time.
    bench.pass(60_000);
    let claim = bench.redis.keys.get(&format!("hero:claim:{}", id(1)));
    let Some(Entry::Text(holder, until)) = claim else {
        panic!("{claim:?}")
    };
    assert!(holder == "host-a" && *until > bench.now);
    let sent_again = bench.calls.iter().any(|call| call.via == Via::Own);
    assert!(!sent_again);
    bench.answer(&finish);
    assert_eq!(bench.reply(1), [output]);
    assert!(bench.worker.is_idle());
    // A renewal that was on its way too takes nothing.
    bench.pass(5_000);
    assert!(
        !bench
            .redis
            .keys
            .contains_key(&format!("hero:claim:{}", id(1)))
    );
}

#[test]
fn the_attributes_of_a_job_reach_its_guest() {
    let mut bench = Bench::new();
    bench.enqueue(1, &[("attributes", r#"{"tenant":"t"}"#)]);
    bench.enqueue(2, &[("attributes", "no JSON")]);
    bench.enqueue(3, &[("attributes", &"x".repeat(33 << 10))]);
    let attributes = |n| bench.guests[&bench.guest(n).unwrap()].attributes.clone();
    assert_eq!(attributes(1), [("tenant".to_owned(), "t".to_owned())]);
    assert_eq!((attributes(2), attributes(3)), (Vec::new(), Vec::new()));
}

#[test]
fn the_variables_of_a_job_reach_its_guest() {
    let mut bench = Bench::new();
    bench.enqueue(1, &[("env_vars", r#"{"MODE":"dry"}"#)]);
    bench.enqueue(2, &[("env_vars", "null")]);
    let env = |n| bench.guests[&bench.guest(n).unwrap()].env.clone();
    assert_eq!(env(1), [("MODE".to_owned(), "dry".to_owned())]);
    assert_eq!(env(2), []);
}
