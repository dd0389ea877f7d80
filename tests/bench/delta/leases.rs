//! Jobs from lease to completion: as fast as possible, and one after the other.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::task::JoinSet;

use super::runner::Runner;
use super::{JOB, enqueue};
use crate::http::Connection;
use crate::load::{self, Shape};
use crate::numbers::{count, median, ms};
use crate::report::{Report, Target};
use crate::{Args, Stage, disk};

const RUNNERS: usize = 64;
const JOBS: usize = 10_000;
const JOBS_PER_SECOND_MIN: f64 = 5_000.0;

/// How many jobs one runner executes one after the other.
const SINGLE: usize = 200;

/// How many synced appends are measured for comparison.
const SYNCS: usize = 200;

/// The target for a job at one runner: this many disk syncs, plus this time.
const SYNCS_MAX: f64 = 5.0;
const BESIDE_MS_MAX: f64 = 5.0;

/// Long enough for a request to reach the host and wait there.
const SETTLE: Duration = Duration::from_millis(5);

pub(super) async fn measure(args: &Args, stage: &Stage, report: &mut Report) -> Result<()> {
    let address = stage.server.address();
    let (mut drained, mut over_http) = (Vec::new(), Vec::new());
    let (mut single, mut syncs) = (Vec::new(), Vec::new());
    let shape = Shape {
        in_flight: RUNNERS,
        batch: 1,
    };
    for round in 1..=args.rounds {
        eprintln!("leases, round {round} of {}", args.rounds);
        drained.push(drain(address).await?);
        let span = Duration::from_secs_f64(args.seconds);
        over_http.push(load::run(address, shape, span).await?.jobs_per_second);
        single.push(one_by_one(address).await?);
        let path = stage.folder.path().join("raw");
        syncs.push(tokio::task::block_in_place(|| disk::sync_ms(&path, SYNCS))?);
    }
    let leases = format!("no-op leases, {RUNNERS} runners");
    let target = Target::AtLeast(JOBS_PER_SECOND_MIN);
    report.add(&leases, "jobs/s", drained, Some(target));
    report.add(shape.name(), "jobs/s", over_http, None);
    report.ratio("leases to jobs over HTTP", &leases, &shape.name(), None);
    let allowed = SYNCS_MAX * median(&syncs) + BESIDE_MS_MAX;
    report.add("append and fdatasync, p50", "ms", syncs, None);
    report.add(
        "enqueue to complete, one runner, p50",
        "ms",
        single,
        Some(Target::AtMost(allowed)),
    );
    Ok(())
}

/// Has all runners drain the waiting jobs, and returns the jobs per second.
async fn drain(address: &str) -> Result<f64> {
    enqueue(address, JOBS).await?;
    let mut open = Vec::new();
    for number in 0..RUNNERS {
        open.push(Runner::open(address, number).await?);
    }
    let start = Instant::now();
    let mut runners = JoinSet::new();
    for mut runner in open {
        runners.spawn(async move {
            let mut jobs = 0;
            while let Some(lease) = runner.lease(0).await? {
                runner.execute(&lease).await?;
                jobs += 1;
            }
            anyhow::Ok(jobs)
        });
    }
    let mut jobs = 0;
    while let Some(runner) = runners.join_next().await {
        jobs += runner.context("a runner panicked")??;
    }
    let took = start.elapsed();
    ensure!(jobs == JOBS, "{jobs} of {JOBS} jobs were executed");
    Ok(count(jobs) / took.as_secs_f64())
}

/// Enqueues jobs one after the other for a waiting runner. Returns the median time from the request until the
/// completion is answered, in milliseconds.
async fn one_by_one(address: &str) -> Result<f64> {
    let mut connection = Connection::open(address).await?;
    let mut runner = Runner::open(address, 0).await?;
    let mut times = Vec::new();
    for _ in 0..SINGLE {
        let executes = async {
            let lease = runner.lease(30).await?.context("no job has come")?;
            runner.execute(&lease).await?;
            anyhow::Ok(Instant::now())
        };
        let enqueues = async {
            tokio::time::sleep(SETTLE).await;
            let start = Instant::now();
            connection.enqueue(JOB.as_bytes()).await?;
            anyhow::Ok(start)
        };
        let (end, start) = tokio::try_join!(executes, enqueues)?;
        times.push(ms(end.saturating_duration_since(start)));
    }
    Ok(median(&times))
}
