//! A hundred workers that connect to one orchestrator at the same time.

use std::collections::BTreeSet;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use host_tests::beads::BeadsWorker;
use host_tests::eventually;
use serde_json::json;

use crate::beads::Orchestrator;

const WORKERS: usize = 100;
const TASKS: usize = 500;

/// How long a worker works on a task.
const PACE: Duration = Duration::from_millis(100);

/// The limit for every wait.
const WAIT_MAX: Duration = Duration::from_mins(3);

/// Does tasks until the orchestrator sends SHUTDOWN. Returns the issues in the order of their tasks.
fn work(mut worker: BeadsWorker) -> Vec<String> {
    let mut issues = Vec::new();
    worker.ready();
    while let Some(message) = worker.message() {
        match message["type"].as_str().unwrap() {
            "TASK" => {
                issues.push(message["issue_id"].as_str().unwrap().to_owned());
                assert!(worker.receives_nothing_for(PACE), "a worker has one task");
                worker.done(&message);
                worker.ready();
            }
            "WAIT" => worker.ready(),
            other => {
                assert_eq!(other, "SHUTDOWN");
                return issues;
            }
        }
    }
    panic!("the orchestrator tells its workers to end")
}

#[test]
fn a_hundred_workers_connect_at_once_and_end_a_task_every_100_ms() {
    let mut host = Orchestrator::start();
    let client = host.client();
    let start = Arc::new(Barrier::new(WORKERS));
    let threads: Vec<_> = (1..=WORKERS)
        .map(|number| {
            let (start, path) = (Arc::clone(&start), host.socket.clone());
            std::thread::spawn(move || {
                start.wait();
                work(BeadsWorker::connect(&path, &format!("W{number}")).unwrap())
            })
        })
        .collect();
    eventually("all workers to be ready", WAIT_MAX, || {
        let runners = client.get("/api/v1/runners").ok()?.body.to_string();
        let ready = runners.matches("waits for a task").count();
        (ready == WORKERS).then_some(())
    });
    let jobs = vec![json!({"handler": "beads#tidy"}); TASKS];
    let accepted = client.post("/api/v1/jobs", &json!(jobs)).unwrap().body;
    let entries = accepted.as_array().unwrap().iter();
    let ids: BTreeSet<String> = entries
        .map(|entry| entry["id"].as_str().unwrap().to_owned())
        .collect();
    for id in &ids {
        let job = client.wait(id);
        assert_eq!(
            (&job["state"], &job["attempt"]),
            (&json!("completed"), &json!(1)),
            "{job}"
        );
    }
    assert_eq!(host.stop(), Some(0));
    let mut done = BTreeSet::new();
    for thread in threads {
        let issues = thread.join().unwrap();
        assert!(!issues.is_empty(), "each worker has had tasks");
        for issue in issues {
            assert!(done.insert(issue.clone()), "{issue} was given out twice");
        }
    }
    assert_eq!(done, ids);
}
