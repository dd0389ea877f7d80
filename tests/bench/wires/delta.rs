//! A host as an orchestrator of Delta runners, which execute nothing: waiting jobs from lease to completion, each step on
//! disk before it is answered.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use host_tests::delta::TOKEN;
use serde::Deserialize;
use tokio::task::JoinSet;

use super::IN_FLIGHT;
use crate::Stage;
use crate::http::Connection;
use crate::numbers::count;

const JOBS: usize = 10_000;
const JOB: &str = r#"{"handler":"ci#noop","params":{"steps":["noop"]}}"#;

/// The longest array of one request.
const ARRAY: usize = 1_000;

#[derive(Deserialize)]
struct Lease {
    lease_id: String,
}

/// Starts a host with the pool `ci`.
pub(super) fn start() -> Result<Stage> {
    let folder = tempfile::TempDir::new_in(crate::build_folder()?)?;
    let config = std::fs::read_to_string(host_tests::delta::config(folder.path(), 120, ""))?;
    Stage::configured(&["basics"], &config)
}

/// Returns jobs per second.
pub(super) async fn rate(address: &str) -> Result<f64> {
    let mut connection = Connection::open(address).await?;
    let array = format!("[{}]", vec![JOB; ARRAY].join(","));
    for _ in 0..JOBS / ARRAY {
        connection.enqueue_all(array.as_bytes()).await?;
    }
    let mut connections = Vec::new();
    for _ in 0..IN_FLIGHT {
        connections.push(Connection::open(address).await?);
    }
    let start = Instant::now();
    let mut runners = JoinSet::new();
    for (number, connection) in connections.into_iter().enumerate() {
        runners.spawn(execute_all(connection, format!("r{number}")));
    }
    let mut jobs = 0;
    while let Some(runner) = runners.join_next().await {
        jobs += runner.context("a runner panicked")??;
    }
    let took = start.elapsed();
    ensure!(jobs == JOBS, "{jobs} of {JOBS} jobs were executed");
    Ok(count(jobs) / took.as_secs_f64())
}

/// Leases and completes jobs until none waits. Returns how many.
async fn execute_all(mut connection: Connection, runner: String) -> Result<usize> {
    let bearer = format!("authorization: Bearer {TOKEN}\r\n");
    let ask = format!(r#"{{"runner_id":"{runner}","capabilities":["os:linux"],"wait_seconds":0}}"#);
    for jobs in 0.. {
        let path = "/api/v1/internal/lease";
        let (status, body) = connection.post_with(path, &bearer, ask.as_bytes()).await?;
        if status == 204 {
            return Ok(jobs);
        }
        ensure!(status == 200, "a lease is refused with {status}");
        let lease: Lease = serde_json::from_slice(body).context("a lease cannot be read")?;
        let completion = r#","status":"SUCCEEDED","exit_code":0"#;
        for (step, fields) in [("ack-lease", ""), ("complete", completion)] {
            let message = format!(
                r#"{{"lease_id":"{}","runner_id":"{runner}"{fields}}}"#,
                lease.lease_id
            );
            let path = format!("/api/v1/internal/{step}");
            let answer = connection.post_with(&path, &bearer, message.as_bytes());
            let (status, _) = answer.await?;
            ensure!(status == 200, "{step} is refused with {status}");
        }
    }
    Ok(0)
}
