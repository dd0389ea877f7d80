//! RRQ's own orchestrator connects to external runners: a `host worker rrq` and a `host serve`.

use host_tests::{Options, Server, Worker, guests};
use serde_json::json;
use tempfile::TempDir;

use crate::orchestrator::{Orchestrator, Setup};

/// Runs a job that succeeds, one that fails, and one that times out.
fn use_runner(rrq: &Orchestrator) {
    let job = rrq.run("echo", &json!({"a": 1}));
    assert_eq!(job.result(), json!({"a": 1}), "{job:?}");
    let id = rrq.enqueue("spin", &json!({"job_timeout_seconds": 1}));
    let job = rrq.wait(&id);
    assert!(job.last_error().contains("timed out"), "{job:?}");
    let job = rrq.run("flaky", &json!({"fail_times": 1}));
    assert_eq!(job.result(), json!({"attempt": 2}), "{job:?}");
}

#[test]
fn an_orchestrator_connects_to_a_worker() {
    let data = TempDir::new().unwrap();
    let worker = Worker::start(data.path());
    let rrq = Setup::new().external(worker.address()).start();
    use_runner(&rrq);
    drop(rrq);
    // A second orchestrator can use the same worker.
    let rrq = Setup::new().external(worker.address()).start();
    use_runner(&rrq);
    assert_eq!(worker.stop().0, Some(0));
}

#[test]
fn an_orchestrator_connects_to_a_host_and_its_jobs_are_seen_there() {
    let data = TempDir::new().unwrap();
    let server = Server::start(&Options::new(data.path()).handlers(&guests::folder()));
    let rrq = Setup::new().external(server.rrq_address()).start();
    use_runner(&rrq);
    let trace = json!({"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"});
    let options = json!({"params": {"seen": true}, "trace_context": trace});
    let id = rrq.enqueue("echo", &options);
    rrq.wait(&id);
    let client = server.client();
    let seen = rrq.until("the job to be in the host's history", |_| {
        let mut jobs = client.foreign_jobs().into_iter();
        jobs.find(|job| job["external_id"] == id.as_str())
    });
    assert_eq!(seen["wire"], "rrq", "{seen}");
    assert_eq!(seen["state"], "completed", "{seen}");
    assert_eq!(seen["handler"], "echo", "{seen}");
    assert_eq!(seen["params"], json!({"seen": true}), "{seen}");
    assert_eq!(seen["result"], json!({"seen": true}), "{seen}");
    assert_eq!(seen["trace_context"], trace, "{seen}");
    let timed_out = rrq.until("the job that timed out to be there", |_| {
        let mut jobs = client.foreign_jobs().into_iter();
        jobs.find(|job| job["handler"] == "spin")
    });
    assert_ne!(timed_out["state"], "completed", "{timed_out}");
    // The host also runs its own jobs.
    let own = client.run(&json!({"handler": "echo", "params": [1]}));
    assert_eq!(own["state"], "completed", "{own}");
    assert_eq!(server.stop(), Some(0));
}
