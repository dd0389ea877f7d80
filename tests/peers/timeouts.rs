//! Jobs that overrun their deadline under RRQ's own orchestrator: they end in time, and the worker
//! is not killed for them.

use std::time::Duration;

use serde_json::json;

use crate::orchestrator::{Setup, TIMED_OUT};

/// How much longer than its timeout a job may be active: the orchestrator polls, and the machine
/// has more to do.
const LATE: Duration = Duration::from_secs(2);

fn overruns(setup: Setup) {
    let rrq = setup.start();
    // So that the first job finds everything there.
    rrq.run("noop", &json!({}));
    let workers = rrq.workers();
    for (function, params) in [
        ("spin", json!({})),
        ("sleep", json!({"ms": 60_000})),
        ("cooperate", json!({})),
    ] {
        let options = json!({"params": params, "job_timeout_seconds": 1});
        let id = rrq.enqueue(function, &options);
        let job = rrq.wait(&id);
        assert_eq!((job.status(), job.retries()), ("FAILED", 1), "{job:?}");
        assert_eq!(job.last_error(), TIMED_OUT, "{job:?}");
        assert!(job.took() < Duration::from_secs(1) + LATE, "{job:?}");
        rrq.until("the job to be a dead letter", |it| {
            it.is_dead_letter(&id).then_some(())
        });
        assert_eq!(rrq.workers(), workers, "the worker was killed: {function}");
    }
    let job = rrq.run("echo", &json!({"still": "here"}));
    assert_eq!(job.result(), json!({"still": "here"}), "{job:?}");
    assert_eq!(rrq.workers(), workers);
}

#[test]
fn jobs_time_out_and_the_worker_lives() {
    overruns(Setup::new());
}

#[test]
fn jobs_time_out_and_the_worker_lives_without_cancel_hints() {
    overruns(Setup::new().without_cancel_hints());
}
