//! Outcomes of jobs under RRQ's own orchestrator: handlers that return, fail, crash or do not exist.

use serde_json::json;

use crate::orchestrator::Setup;

#[test]
fn a_job_returns_its_result() {
    let rrq = Setup::new().start();
    let params = json!({"a": [1, "ü", null], "b": {"c": 2.5}});
    let job = rrq.run("echo", &params);
    assert_eq!(job.status(), "COMPLETED", "{job:?}");
    assert_eq!(job.result(), params);
    // The orchestrator removes the runner's name before the handler.
    let job = rrq.run("host#echo", &json!({"x": 1}));
    assert_eq!(job.result(), json!({"x": 1}), "{job:?}");
    let job = rrq.run("noop", &json!({}));
    assert_eq!((job.status(), job.result()), ("COMPLETED", json!(null)));
}

#[test]
fn the_log_of_a_job_is_in_that_of_the_orchestrator() {
    let rrq = Setup::new().start();
    let job = rrq.run("log", &json!({"lines": 2}));
    assert_eq!(job.status(), "COMPLETED", "{job:?}");
    rrq.until("the last line to be in its log", |it| {
        let log = it.log();
        let mut lines = log.lines().filter(|line| line.contains(&job.id));
        lines.any(|line| line.contains("line 2 of 2")).then_some(())
    });
}

#[test]
fn a_failing_job_is_retried_up_to_its_limit() {
    let rrq = Setup::new().start();
    let options = json!({"params": {"message": "no luck ü"}, "max_retries": 3});
    let id = rrq.enqueue("fail", &options);
    let job = rrq.wait(&id);
    assert_eq!((job.status(), job.retries()), ("FAILED", 3), "{job:?}");
    assert_eq!(job.last_error(), "no luck ü");
    rrq.until("the job to be a dead letter", |it| {
        it.is_dead_letter(&id).then_some(())
    });
}

#[test]
fn a_job_that_asks_for_a_retry_gets_it_after_its_delay() {
    let rrq = Setup::new().start();
    let job = rrq.run("flaky", &json!({"fail_times": 2}));
    assert_eq!(job.status(), "COMPLETED", "{job:?}");
    assert_eq!(job.result(), json!({"attempt": 3}));
    assert_eq!(job.retries(), 2);
    assert_eq!(job.last_error(), "attempt 2 of 2 that fail");
}

#[test]
fn a_job_without_a_handler_is_a_dead_letter_at_once() {
    let rrq = Setup::new().start();
    for function in ["no_such_handler", "../../etc/passwd", "basics.wasm"] {
        let job = rrq.run(function, &json!({}));
        assert_eq!((job.status(), job.retries()), ("FAILED", 1), "{job:?}");
        assert!(job.last_error().contains(function), "{job:?}");
        rrq.until("the job to be a dead letter", |it| {
            it.is_dead_letter(&job.id).then_some(())
        });
    }
}

#[test]
fn crashing_guests_fail_only_themselves() {
    let rrq = Setup::new().start();
    let workers = rrq.workers();
    for (function, params, says) in [
        ("panic", json!({}), "told to panic"),
        ("alloc", json!({"mib": 512}), "memory"),
        ("sleep", json!({"ms": "long"}), "ms"),
    ] {
        let id = rrq.enqueue(function, &json!({"params": params, "max_retries": 1}));
        let job = rrq.wait(&id);
        assert_eq!(job.status(), "FAILED", "{function}: {job:?}");
        assert!(job.last_error().contains(says), "{function}: {job:?}");
    }
    let job = rrq.run("echo", &json!({"still": "here"}));
    assert_eq!(job.result(), json!({"still": "here"}), "{job:?}");
    assert_eq!(rrq.workers(), workers, "the worker was never killed");
}

#[test]
fn a_pool_of_two_shares_the_jobs() {
    let rrq = Setup::new().pool_size(2).start();
    let workers = rrq.workers();
    assert_eq!(workers.len(), 2);
    let ids: Vec<String> = (0..40)
        .map(|n| rrq.enqueue("echo", &json!({"params": {"n": n}})))
        .collect();
    for (n, id) in ids.iter().enumerate() {
        let job = rrq.wait(id);
        assert_eq!(job.result(), json!({"n": n}), "{job:?}");
    }
    assert_eq!(rrq.workers(), workers);
}
