//! Lost cells: the jobs that were in them run again immediately, and suspects in groups.

use std::time::Duration;

use host_tests::eventually;
use host_tests::processes::{children, command};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::fixture::{Own, own_with};
use crate::nodes::endless;

/// How long a cell may take to end, and another to start.
const WAIT_MAX: Duration = Duration::from_mins(3);

const JOBS: usize = 64;

/// Starts a host with two cells, and this many jobs that run until they are cancelled.
fn with_endless_jobs() -> Own {
    let own = own_with(|options| options.args = vec!["--cells=2".to_owned()]);
    let job = json!({"handler": "sleep", "params": endless()["params"], "timeout_seconds": 3600});
    let answer = own
        .server
        .client()
        .post("/api/v1/jobs", &json!(vec![job; JOBS]));
    assert_eq!(answer.unwrap().status, 201);
    own
}

/// Waits until all jobs run at the same time. Returns the number of the latest attempt.
fn all_run(own: &Own) -> u64 {
    let client = own.server.client();
    eventually("all jobs to run", WAIT_MAX, || {
        let jobs = client.items("/api/v1/jobs");
        let run = jobs.iter().filter(|job| job["state"] == "running");
        let attempts = jobs.iter().filter_map(|job| job["attempt"].as_u64());
        (run.count() == JOBS).then(|| attempts.max())?
    })
}

/// Kills this many cells, and waits until the host has noticed.
fn kill_cells(own: &Own, count: usize) {
    let attempt = all_run(own);
    let is_cell = |pid: &u32| command(*pid).contains("cell run");
    let cells = children(own.server.pid()).into_iter().filter(is_cell);
    for cell in cells.take(count) {
        let cell = Pid::from_raw(cell.cast_signed()).unwrap();
        kill_process(cell, Signal::KILL).unwrap();
    }
    let client = own.server.client();
    eventually("the loss to be noticed", WAIT_MAX, || {
        let jobs = client.items("/api/v1/jobs");
        let is_later = |job: &Value| job["attempt"].as_u64() > Some(attempt);
        jobs.iter().any(is_later).then_some(())
    });
}

#[test]
fn the_jobs_of_a_killed_cell_run_again_at_once() {
    let own = with_endless_jobs();
    kill_cells(&own, 1);
    assert_eq!(all_run(&own), 2);
}

#[test]
fn jobs_that_were_in_two_killed_cells_run_apart_in_groups() {
    let own = with_endless_jobs();
    kill_cells(&own, 1);
    kill_cells(&own, 2);
    // Jobs of the first of these cells may have begun in the second before that was killed: their groups are
    // smaller, so not all jobs run concurrently.
    let client = own.server.client();
    eventually("groups of suspects to run", WAIT_MAX, || {
        let jobs = client.items("/api/v1/jobs");
        let is_suspect =
            |job: &&Value| job["state"] == "running" && job["attempt"].as_u64() >= Some(3);
        (jobs.iter().filter(is_suspect).count() >= JOBS / 2).then_some(())
    });
}
