//! The documented dialect of RRQ: the address only in the environment, one connection per request, and a
//! separate connection for each cancel.

use serde_json::json;

use crate::orchestrator::{DOCUMENTED, Setup, TIMED_OUT, TIMEOUT_SECONDS};

#[test]
fn jobs_of_the_documented_dialect_are_executed() {
    let rrq = Setup::new().release(DOCUMENTED).start();
    let workers = rrq.workers();
    let job = rrq.run("echo", &json!({"a": 1}));
    assert_eq!((job.status(), job.result()), ("COMPLETED", json!({"a": 1})));
    let job = rrq.run("flaky", &json!({"fail_times": 1}));
    assert_eq!(job.result(), json!({"attempt": 2}), "{job:?}");
    let job = rrq.run("no_such_handler", &json!({}));
    assert_eq!(job.status(), "FAILED", "{job:?}");
    assert!(rrq.is_dead_letter(&job.id), "{job:?}");
    let id = rrq.enqueue(
        "fail",
        &json!({"params": {"message": "no"}, "max_retries": 2}),
    );
    let job = rrq.wait(&id);
    assert_eq!((job.retries(), job.last_error()), (2, "no"), "{job:?}");
    let ids: Vec<String> = (0..50)
        .map(|n| rrq.enqueue("echo", &json!({"params": {"n": n}})))
        .collect();
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(rrq.wait(id).result(), json!({"n": n}));
    }
    assert_eq!(rrq.workers(), workers);
}

#[test]
fn jobs_of_the_documented_dialect_time_out_and_the_worker_lives() {
    let rrq = Setup::new().release(DOCUMENTED).start();
    rrq.run("noop", &json!({}));
    let workers = rrq.workers();
    let id = rrq.enqueue("spin", &json!({"job_timeout_seconds": TIMEOUT_SECONDS}));
    let job = rrq.wait(&id);
    assert_eq!(job.last_error(), TIMED_OUT, "{job:?}");
    assert_eq!(rrq.workers(), workers);
    let job = rrq.run("echo", &json!({"a": 1}));
    assert_eq!(job.result(), json!({"a": 1}), "{job:?}");
}
