//! Time limits and deadlines: whose run they count for, and that they hold without Redis.

use host_core::failure::FailureKind;
use host_core::outcome::Outcome;

use super::*;

fn is_timed_out(end: &End) -> bool {
    matches!(end, End::Outcome(Outcome::Failed(failure)) if failure.kind == FailureKind::TimedOut)
}

#[test]
fn a_run_after_a_give_back_has_its_whole_time() {
    // The time limit is 1.5 s.
    for between in [true, false] {
        let mut bench = Bench::new();
        bench.send(1);
        bench.taken(1);
        bench.worker_says(1, &[("status", "started"), ("updated_at", "a")]);
        bench.pass(2_000);
        if between {
            bench.redis.push("hero:work_queue:w1", &id(1));
            bench.worker_says(1, &[("status", "dispatched"), ("updated_at", "b")]);
            bench.pass(20_000);
            bench.taken(1);
        }
        bench.worker_says(1, &[("status", "started"), ("updated_at", "c")]);
        bench.pass(2_300);
        assert!(
            bench.redis.items("hero:stop_queue:w1").is_empty(),
            "{between}"
        );
        bench.worker_says(1, &[("status", "finished"), ("output", "1")]);
        assert!(matches!(bench.outcome(), Outcome::Completed { .. }));
    }
}

#[test]
fn a_worker_that_changes_the_time_of_its_job_does_not_extend_it_for_ever() {
    let mut bench = Bench::new();
    bench.send(1);
    bench.taken(1);
    for n in 0..30 {
        bench.worker_says(1, &[("status", "started"), ("updated_at", &n.to_string())]);
        bench.pass(500);
    }
    assert_eq!(bench.redis.items("hero:stop_queue:w1"), [id(1)]);
}

#[test]
fn a_job_that_timed_out_at_a_slow_worker_is_not_queued_again() {
    let mut bench = Bench::new();
    bench.send(1);
    bench.taken(1);
    bench.worker_says(1, &[("status", "started")]);
    bench.pass(13_000);
    assert!(is_timed_out(&bench.ended[0].1), "{:?}", bench.ended);
    assert!(bench.redis.items("hero:work_queue:w1").is_empty());
    assert_eq!(
        bench.redis.items("hero:stop_queue:w1"),
        [id(1)],
        "the stop stays"
    );
    assert_eq!(bench.ended.len(), 1);
}

#[test]
fn time_limits_and_deadlines_hold_while_redis_is_away() {
    let mut bench = Bench::new();
    bench.send(1);
    bench.taken(1);
    bench.worker_says(1, &[("status", "started")]);
    let mut due = execution(2);
    due.deadline = Some(bench.now.plus_ms(3_000));
    bench.drive(|it, at, todo| it.on_start(at, Tag(2), due, todo));
    bench.send(3);
    bench.dispatcher.on_disconnected();
    bench.pass(10_000);
    assert!(bench.ended.is_empty());
    bench.pass(5_000);
    let ended: Vec<u64> = bench.ended.iter().map(|(tag, _)| *tag).collect();
    assert_eq!(ended, [1, 2], "the third has no deadline and waits");
    assert!(bench.ended.iter().all(|(_, end)| is_timed_out(end)));
    bench.drive(Orchestrator::on_connected);
    assert_eq!(bench.redis.items("hero:stop_queue:w1"), [id(1)]);
    assert_eq!(bench.redis.items("hero:work_queue:w1"), [id(3)]);
}
