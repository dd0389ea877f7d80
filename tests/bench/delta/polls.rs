//! The cost of waiting runners, and how soon one gets a new job.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::JOB;
use super::runner::Runner;
use crate::Stage;
use crate::http::Connection;
use crate::numbers::{count, ms, percentile, sorted};
use crate::process::status_mib;
use crate::report::{Report, Target};

const RUNNERS: usize = 200;
const MEMORY_MIB_MAX: f64 = 10.0;
const JOBS: usize = 300;
const LEASE_MS_MAX: f64 = 5.0;

/// Lets the host settle.
const SETTLE: Duration = Duration::from_secs(1);

/// The pause between jobs.
const PAUSE: Duration = Duration::from_millis(10);

pub(super) async fn measure(stage: &Stage, report: &mut Report) -> Result<()> {
    eprintln!("{RUNNERS} runners that wait");
    let address = stage.server.address();
    let mut connection = Connection::open(address).await?;
    // The cost of the very first lease is not that of waiting runners.
    let mut first = Runner::open(address, RUNNERS).await?;
    connection.enqueue(JOB.as_bytes()).await?;
    let lease = first.lease(30).await?.context("no job has come")?;
    first.execute(&lease).await?;
    tokio::time::sleep(SETTLE).await;
    let memory = || status_mib(stage.server.pid(), "VmRSS");
    let before = memory()?;
    let (leased, mut granted) = mpsc::channel(RUNNERS);
    let mut runners = JoinSet::new();
    for number in 0..RUNNERS {
        let mut runner = Runner::open(address, number).await?;
        let leased = leased.clone();
        runners.spawn(async move {
            loop {
                if let Some(lease) = runner.lease(60).await? {
                    leased.send(Instant::now()).await?;
                    runner.execute(&lease).await?;
                }
            }
            #[expect(unreachable_code, reason = "names the type of the error")]
            anyhow::Ok(())
        });
    }
    tokio::time::sleep(SETTLE).await;
    let used = memory()? - before;
    let mut times = Vec::new();
    for _ in 0..JOBS {
        let start = Instant::now();
        connection.enqueue(JOB.as_bytes()).await?;
        let at = tokio::select! {
            at = granted.recv() => at.context("all runners have ended")?,
            Some(ended) = runners.join_next() => {
                ended.context("a runner panicked")??;
                continue;
            }
        };
        times.push(ms(at.saturating_duration_since(start)));
        tokio::time::sleep(PAUSE).await;
    }
    let times = sorted(&times);
    report.add(
        format!("memory of {RUNNERS} runners that wait"),
        "MiB",
        vec![used],
        Some(Target::AtMost(MEMORY_MIB_MAX)),
    );
    let each = used * 1024.0 / count(RUNNERS);
    report.add("memory of one of them", "KiB", vec![each], None);
    let p50 = percentile(&times, 0.5);
    let target = Some(Target::AtMost(LEASE_MS_MAX));
    report.add("enqueue to lease, p50", "ms", vec![p50], target);
    let p99 = percentile(&times, 0.99);
    report.add("enqueue to lease, p99", "ms", vec![p99], None);
    Ok(())
}
