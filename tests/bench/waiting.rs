//! Whether many waiting jobs slow down those that run: the same load on a host with a full, paused queue and
//! on one without, in turns.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::task::JoinSet;

use crate::http::Connection;
use crate::report::{Report, Target};
use crate::rounds::single;
use crate::{Args, Stage, load, process};

const QUEUE: &str = "waiting";
const ARRAY: usize = 1_000;
const CONNECTIONS: usize = 4;
const RATIO_MIN: f64 = 0.8;

pub(crate) async fn measure(args: &Args, empty: &Stage, report: &mut Report) -> Result<()> {
    let full = Stage::start()?;
    eprintln!("enqueueing {} jobs that wait", args.waiting);
    pause_and_fill(&full, args.waiting).await?;
    let span = Duration::from_secs_f64(args.seconds);
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}, beside jobs that wait", args.rounds);
        let sample = load::run(empty.server.address(), single(256), span).await?;
        without.push(sample.jobs_per_second);
        let sample = load::run(full.server.address(), single(256), span).await?;
        with.push(sample.jobs_per_second);
    }
    let name = "HTTP, 256 jobs in flight, beside jobs that wait";
    let beside = "HTTP, 256 jobs in flight, in turns with it";
    report.add(
        "jobs that wait",
        "jobs",
        vec![crate::numbers::count(args.waiting)],
        None,
    );
    report.add(name, "jobs/s", with, None);
    report.add(beside, "jobs/s", without, None);
    let target = Target::AtLeast(RATIO_MIN);
    report.ratio("beside jobs that wait to without", name, beside, target);
    process::memory(&full.server, "beside jobs that wait", report)?;
    full.stop()
}

/// Enqueues jobs into a paused queue.
pub(crate) async fn pause_and_fill(stage: &Stage, jobs: usize) -> Result<()> {
    let client = stage.server.client();
    let paused = client.post(&format!("/api/v1/queues/{QUEUE}/pause"), &json!({}))?;
    ensure!(paused.status == 200, "cannot pause: {}", paused.body);
    fill(stage.server.address(), jobs).await
}

async fn fill(address: &str, jobs: usize) -> Result<()> {
    let job = format!(r#"{{"handler":"noop","params":{{"n":12345}},"queue":"{QUEUE}"}}"#);
    let arrays = jobs.div_ceil(ARRAY);
    let mut workers = JoinSet::new();
    for worker in 0..CONNECTIONS {
        let mut connection = Connection::open(address).await?;
        let body = format!("[{}]", vec![job.as_str(); ARRAY].join(","));
        workers.spawn(async move {
            for _ in (worker..arrays).step_by(CONNECTIONS) {
                connection.enqueue_all(body.as_bytes()).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker.context("a worker panicked")??;
    }
    Ok(())
}
