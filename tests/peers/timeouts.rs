//! Jobs that exceed their deadline under RRQ's own orchestrator: they end in time, and RRQ does not kill
//! the worker.

use std::time::Duration;

use host_tests::{Options, Server, guests};
use serde_json::json;
use tempfile::TempDir;

use crate::orchestrator::{Orchestrator, Setup, TIMED_OUT, TIMEOUT_SECONDS};

fn overruns(setup: Setup) {
    let rrq = setup.start();
    // Makes sure that the worker is ready before the first job.
    rrq.run("noop", &json!({}));
    let workers = rrq.workers();
    let ids = [
        ("spin", json!({})),
        ("sleep", json!({"ms": 60_000})),
        ("cooperate", json!({})),
    ]
    .map(|(function, params)| {
        let options = json!({"params": params, "job_timeout_seconds": TIMEOUT_SECONDS});
        rrq.enqueue(function, &options)
    });
    for id in &ids {
        let job = rrq.wait(id);
        assert_eq!((job.status(), job.retries()), ("FAILED", 1), "{job:?}");
        assert_eq!(job.last_error(), TIMED_OUT, "{job:?}");
        let took = job.took();
        assert!(took < Duration::from_secs(TIMEOUT_SECONDS), "{job:?}");
        rrq.until("the job to be a dead letter", |it| {
            it.is_dead_letter(id).then_some(())
        });
    }
    assert_eq!(rrq.workers(), workers, "the worker was killed");
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

/// Makes the orchestrator give up a job before its deadline, so that it sends a cancel.
fn gives_up(setup: Setup, function: &str) -> Orchestrator {
    let rrq = setup.response_seconds(10).start();
    rrq.run("noop", &json!({}));
    let workers = rrq.workers();
    let id = rrq.enqueue(
        function,
        &json!({"job_timeout_seconds": 60, "max_retries": 1}),
    );
    rrq.until("the job to run", |it| {
        (it.job(&id).status() == "ACTIVE").then_some(())
    });
    let first = rrq.run("sleep", &json!({"ms": 4_000}));
    assert_eq!(first.status(), "COMPLETED", "{first:?}");
    // This job is in flight when the orchestrator gives up the other one.
    let second = rrq.run("sleep", &json!({"ms": 7_000}));
    assert_eq!(second.status(), "COMPLETED", "{second:?}");
    let given_up = rrq.wait(&id);
    assert_eq!(given_up.status(), "FAILED", "{given_up:?}");
    assert_ne!(
        given_up.last_error(),
        TIMED_OUT,
        "we did not end it: {given_up:?}"
    );
    assert_eq!(rrq.workers(), workers);
    rrq
}

#[test]
fn a_cancel_reaches_a_shared_worker() {
    for function in ["cooperate", "spin"] {
        let setup = Setup::new();
        let rrq = gives_up(setup, function);
        let job = rrq.run("echo", &json!({"still": "here"}));
        assert_eq!(job.result(), json!({"still": "here"}), "{job:?}");
    }
}

#[test]
fn a_cancel_reaches_a_shared_host() {
    let data = TempDir::new().unwrap();
    let server = Server::start(&Options::new(data.path()).handlers(&guests::folder()));
    let rrq = gives_up(Setup::new().external(server.rrq_address()), "cooperate");
    let cancelled = rrq.until("the cancelled job to be in the host's history", |_| {
        let mut jobs = server.client().foreign_jobs().into_iter();
        jobs.find(|job| job["handler"] == "cooperate")
    });

    assert_eq!(cancelled["state"], "cancelled", "{cancelled}");
}
