//! How workers end: when asked to stop, and when the orchestrator that launched them ends.

use std::time::Duration;

use host_tests::rrq::{Connection, request};
use host_tests::{Worker, eventually, processes};
use serde_json::json;
use tempfile::TempDir;

use crate::orchestrator::Setup;

/// How long a worker may take to end.
const END: Duration = Duration::from_millis(200);

#[test]
fn a_stopping_worker_answers_and_ends_at_once() {
    // On a busy machine some of several tries may be late.
    let mut took = Vec::new();
    let is_quick = (0..10).any(|_| {
        let last = stop();
        took.push(last);
        last < END
    });
    assert!(is_quick, "it took {took:?}");
}

/// Asks a worker with jobs in flight to stop, and returns how long it took.
fn stop() -> Duration {
    let data = TempDir::new().unwrap();
    let worker = Worker::start(data.path());
    let mut connection = Connection::open(worker.address());
    for (n, function) in ["spin", "sleep", "cooperate", "spin"].iter().enumerate() {
        let params = json!({"ms": 60_000});
        connection.send(&request(&n.to_string(), function, &params));
    }
    // This is answered after the other requests have started.
    connection.ask(&request("last", "echo", &json!({})));
    let cells = processes::children(worker.pid());
    assert!(!cells.is_empty());
    let (code, took) = worker.stop();
    assert_eq!(code, Some(0));
    let mut answered: Vec<String> = Vec::new();
    while let Some(answer) = connection.answer_or_end() {
        assert_eq!(answer["status"], "error", "{answer}");
        assert_eq!(answer["error"]["type"], "runner_stopping", "{answer}");
        answered.push(answer["request_id"].as_str().unwrap().to_owned());
    }
    answered.sort_unstable();
    assert_eq!(answered, ["0", "1", "2", "3"]);
    eventually("its cells to be gone", Duration::from_mins(1), || {
        cells
            .iter()
            .all(|cell| !processes::is_alive(*cell))
            .then_some(())
    });
    took
}

#[test]
fn a_worker_ends_with_the_orchestrator_that_launched_it() {
    let mut rrq = Setup::new().pool_size(2).start();
    rrq.run("noop", &json!({}));
    let workers = rrq.workers();
    let cells: Vec<u32> = workers
        .iter()
        .flat_map(|it| processes::children(*it))
        .collect();
    assert!(cells.len() >= 2, "{cells:?}");
    rrq.enqueue("spin", &json!({}));
    rrq.kill();
    eventually(
        "its workers and their cells to end",
        Duration::from_mins(1),
        || {
            let mut all = workers.iter().chain(&cells);
            all.all(|process| !processes::is_alive(*process))
                .then_some(())
        },
    );
}

#[test]
fn a_stopping_orchestrator_stops_its_workers() {
    let mut rrq = Setup::new().start();
    rrq.run("noop", &json!({}));
    let workers = rrq.workers();
    let id = rrq.enqueue("cooperate", &json!({}));
    rrq.until("the job to run", |it| {
        (it.job(&id).status() == "ACTIVE").then_some(())
    });
    rrq.ask_to_stop();
    rrq.until("its worker to be gone", |_| {
        (!processes::is_alive(workers[0])).then_some(())
    });
}
