//! Many jobs that start.

use anyhow::{Context as _, Result, ensure};
use host_tests::{Client, eventually, processes};
use serde_json::json;

use super::{PATIENCE, call, fill, jobs_in, until};
use crate::Stage;

/// How many queues and schedules there are at full size: as many as a host takes, less some for other cases.
const QUEUES: usize = 9_990;
const SCHEDULES: usize = 10_000;

/// How many jobs fail again and again.
const FAILING: usize = 1_000;

/// How many jobs sleep when a cell is lost, and how long.
const SLEEPING: usize = 64;
const SLEEP_MS: u32 = 4_000;

/// Their time twice, and two seconds for a new cell.
pub(super) const LOST_CELL_MS_MAX: f64 = 10_000.0;

pub(super) fn many_queues(stage: &Stage, size: usize) -> Result<()> {
    run_all(&stage.server.client(), size, QUEUES)
}

/// Runs jobs in as many queues.
pub(super) fn run_all(client: &Client, size: usize, queues: usize) -> Result<()> {
    let queues = queues.min(size);
    let queue = |n: usize| format!("queue-{}", n % queues);
    fill(
        client,
        size,
        |n| json!({"handler": "noop", "params": {}, "queue": queue(n)}),
    )?;
    // The last of them is the last to start.
    let urgent = json!({"handler": "noop", "params": {}, "queue": queue(size - 1), "priority": 9});
    let last = client.enqueue(&urgent);
    eventually("the last job to complete", PATIENCE, || {
        (client.job(&last)["state"] == "completed").then_some(())
    });
    Ok(())
}

/// Jobs that fail and ask to be tried again immediately.
pub(super) fn attempts(stage: &Stage, _: usize) -> Result<()> {
    let params = json!({"fail_times": 1_000_000});
    fill(
        &stage.server.client(),
        FAILING,
        |_| json!({"handler": "flaky", "params": params, "queue": "flaky", "max_attempts": 1_000}),
    )
}

/// Kills a cell while jobs sleep in all cells. They must not wait for each other when they run again.
pub(super) fn lost_cell(stage: &Stage, _: usize) -> Result<()> {
    let client = stage.server.client();
    let params = json!({"ms": SLEEP_MS});
    fill(
        &client,
        SLEEPING,
        |_| json!({"handler": "sleep", "params": params, "queue": "sleeping"}),
    )?;
    until(&client, "sleeping", "running", SLEEPING);
    let mut cells = processes::children(stage.server.pid()).into_iter();
    let cell = cells.find(|pid| processes::command(*pid).contains("cell run"));
    processes::kill(cell.context("the host has no cell")?);
    until(&client, "sleeping", "completed", SLEEPING);
    let jobs = client.items("/api/v1/jobs?queue=sleeping");
    ensure!(
        jobs.iter().any(|job| job["attempt"] == 2),
        "no job was in the lost cell"
    );
    Ok(())
}

/// Schedules that all fire at the same time, each minute.
pub(super) fn set_schedules(client: &Client, size: usize) -> Result<()> {
    client.run(&json!({"handler": "noop", "queue": "fired"}));
    let schedule = json!({
        "when": {"every": "1m"}, "overlap": "allow",
        "job": {"handler": "noop", "queue": "fired"},
    });
    (0..SCHEDULES.min(size)).try_for_each(|n| {
        call(
            client,
            "PUT",
            &format!("/api/v1/schedules/tick-{n}"),
            &schedule,
        )?;
        Ok(())
    })
}

/// Waits until as many jobs have run as there are schedules.
pub(super) fn schedules(stage: &Stage, size: usize) -> Result<()> {
    let client = stage.server.client();
    let before = jobs_in(&client, "fired", "completed")?;
    until(&client, "fired", "completed", before + SCHEDULES.min(size));
    Ok(())
}
