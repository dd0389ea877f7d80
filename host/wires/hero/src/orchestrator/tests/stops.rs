//! How jobs that are out are stopped, and how jobs end whose worker is late or does not report.

use super::*;

#[test]
fn a_stop_is_asked_for_once_and_given_up_in_the_end() {
    let mut bench = Bench::new();
    for n in [1, 2] {
        bench.send(n);
        bench.taken(n);
        bench.worker_says(n, &[("status", "started")]);
    }
    for n in [1, 2] {
        bench.drive(|it, at, todo| it.on_cancel(at, Tag(n), 500, todo));
        bench.drive(|it, at, todo| it.on_cancel(at, Tag(n), 500, todo));
    }
    assert_eq!(bench.redis.items("hero:stop_queue:w1"), [id(2), id(1)]);
    bench.worker_says(1, &[("status", "error"), ("error", "stopped_by_request")]);
    assert_eq!(bench.outcome(), Outcome::Cancelled { partial: None });
    bench.pass(1_600);
    let Outcome::Failed(failure) = bench.outcome() else {
        panic!("it is given up")
    };
    assert_eq!(failure.kind, FailureKind::CancelTimeout);
    bench.pass(10_000);
    let stops = "hero:stop_queue:w1";
    assert_eq!(bench.redis.items(stops), [id(2)], "it may hear of it yet");
    bench.worker_says(2, &[("status", "finished"), ("output", "late")]);
    bench.pass(10_000);
    assert!(bench.redis.items(stops).is_empty());
    assert!(bench.redis.texts("hero:out:host-a").is_empty());
}

#[test]
fn a_job_that_no_worker_has_taken_is_cancelled_immediately() {
    let mut bench = Bench::new();
    bench.send(1);
    bench.drive(|it, at, todo| it.on_cancel(at, Tag(1), 500, todo));
    bench.pass(READ_MS);
    assert_eq!(bench.outcome(), Outcome::Cancelled { partial: None });
    for list in ["work_queue", "stop_queue"] {
        let items = bench.redis.items(&format!("hero:{list}:w1"));
        assert!(items.is_empty(), "{list}: {items:?}");
    }
    assert_eq!(bench.redis.field(&id(1), "status").unwrap(), "error");
}

#[test]
fn a_job_of_which_nothing_was_confirmed_is_cancelled_once_redis_is_back() {
    for is_stored in [true, false] {
        let mut bench = Bench::new();
        bench.hand_in(|it, at, todo| it.on_start(at, Tag(1), execution(1), todo));
        let call = bench.calls.remove(0);
        if is_stored {
            bench.redis.answer(&call);
        }
        bench.dispatcher.on_disconnected();
        bench.drive(|it, at, todo| it.on_cancel(at, Tag(1), 60_000, todo));
        bench.drive(Orchestrator::on_connected);
        bench.pass(READ_MS);
        let (_, end) = bench.ended.pop().unwrap();
        if is_stored {
            let cancelled = Outcome::Cancelled { partial: None };
            assert_eq!(end, End::Outcome(cancelled));
        } else {
            assert!(matches!(end, End::Lost(_)), "{end:?}");
        }
        assert!(bench.redis.items("hero:work_queue:w1").is_empty());
    }
}

#[test]
fn a_cancel_is_given_up_while_redis_is_away() {
    let mut bench = Bench::new();
    bench.send(1);
    bench.taken(1);
    bench.dispatcher.on_disconnected();
    bench.drive(|it, at, todo| it.on_cancel(at, Tag(1), 500, todo));
    bench.pass(1_600);
    let Outcome::Failed(failure) = bench.outcome() else {
        panic!("it is given up")
    };
    assert_eq!(failure.kind, FailureKind::CancelTimeout);
    bench.drive(Orchestrator::on_connected);
    assert_eq!(bench.redis.items("hero:stop_queue:w1"), [id(1)]);
    bench.worker_says(1, &[("status", "error"), ("error", "stopped")]);
    bench.pass(10_000);
    assert!(bench.redis.texts("hero:out:host-a").is_empty());
}

#[test]
fn a_worker_that_exceeds_the_time_limit_is_asked_to_stop() {
    let mut bench = Bench::new();
    bench.send(1);
    bench.taken(1);
    bench.worker_says(1, &[("status", "started")]);
    bench.pass(2_600);
    assert_eq!(bench.redis.items("hero:stop_queue:w1"), [id(1)]);
    bench.worker_says(1, &[("status", "error"), ("error", "stopped_by_request")]);
    let Outcome::Failed(failure) = bench.outcome() else {
        panic!("it has failed")
    };
    assert_eq!(failure.kind, FailureKind::TimedOut);
}

#[test]
fn no_job_starts_after_its_deadline() {
    for taken in [false, true] {
        let mut bench = Bench::new();
        let mut late = execution(1);
        late.deadline = Some(bench.now.plus_ms(3_000));
        bench.drive(|it, at, todo| it.on_start(at, Tag(1), late, todo));
        if taken {
            bench.taken(1);
        }
        bench.pass(if taken { 13_500 } else { 3_500 });
        let Outcome::Failed(failure) = bench.outcome() else {
            panic!("it has failed")
        };
        assert_eq!(failure.kind, FailureKind::TimedOut);
        assert!(bench.redis.items("hero:work_queue:w1").is_empty());
    }
}

#[test]
fn a_job_that_ends_just_before_it_is_queued_again_has_ended() {
    let mut bench = Bench::new();
    bench.send(1);
    bench.taken(1);
    let queues_again = |call: &Call| {
        let mut commands = call.commands.iter();
        commands.any(
            |command| matches!(command, Command::Script { script, .. } if *script == Script::Again),
        )
    };
    while !bench.calls.first().is_some_and(queues_again) {
        if bench.calls.is_empty() {
            bench.now = bench.dispatcher.wakeup().unwrap().max(bench.now);
            bench.hand_in(Orchestrator::on_wakeup);
        } else {
            bench.answer();
        }
    }
    bench.worker_says(1, &[("status", "finished"), ("output", "42")]);
    let result = Some(JsonText("42".to_owned()));
    assert_eq!(bench.outcome(), Outcome::Completed { result });
    assert!(bench.redis.items("hero:work_queue:w1").is_empty());
}

#[test]
fn a_job_that_was_taken_and_never_started_is_queued_again_once() {
    let mut bench = Bench::new();
    bench.send(1);
    bench.pass(60_000);
    assert!(bench.ended.is_empty(), "it waits for its worker");
    bench.redis.enqueue("w1", &id(50), &[]);
    for _ in 0..2 {
        bench.taken(1);
        let before = bench.redis.items("hero:work_queue:w1");
        assert_eq!(before, [id(50)]);
        bench.pass(25_000);
    }
    assert!(
        matches!(&bench.ended[..], [(1, End::Lost(_))]),
        "{:?}",
        bench.ended
    );
    assert_eq!(bench.redis.items("hero:work_queue:w1"), [id(50)]);
}

#[test]
fn a_job_in_a_processing_list_is_not_lost() {
    let mut bench = Bench::new();
    bench.send(1);
    bench.taken(1);
    bench.redis.push("hero:processing:w1", &id(1));
    bench.pass(60_000);
    assert!(bench.ended.is_empty());
    assert!(bench.redis.items("hero:work_queue:w1").is_empty());
}
