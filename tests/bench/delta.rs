//! A host as an orchestrator of Delta runners: jobs from lease to completion in turns with jobs over HTTP,
//! the cost of waiting runners, and the cost of heartbeats.

mod heartbeats;
mod leases;
mod polls;
mod runner;

use anyhow::Result;

use crate::report::Report;
use crate::{Args, Part, Stage};

/// A job for the pool, which the bench's runners do not really execute. Its time limit is longer than any
/// part of the bench.
const JOB: &str = r#"{"handler":"ci#noop","params":{"steps":["noop"]},"timeout_seconds":3600}"#;

/// The longest array of one request.
const ARRAY_MAX: usize = 1_000;

pub(crate) async fn measure(args: &Args, report: &mut Report) -> Result<()> {
    if args.wants(Part::Leases) {
        let stage = host()?;
        leases::measure(args, &stage, report).await?;
        stage.stop()?;
    }
    if args.wants(Part::Polls) {
        let stage = host()?;
        polls::measure(&stage, report).await?;
        stage.stop()?;
    }
    if args.wants(Part::Heartbeats) {
        let stage = host()?;
        heartbeats::measure(args, &stage, report).await?;
        stage.stop()?;
    }
    Ok(())
}

/// Starts a host with the pool `ci`.
fn host() -> Result<Stage> {
    let folder = tempfile::TempDir::new_in(crate::build_folder()?)?;
    let config = host_tests::delta::config(folder.path(), 120, "");
    let args = vec!["--config".to_owned(), config.display().to_string()];
    Stage::with(&["basics"], args)
}

/// Enqueues this many jobs for the pool.
async fn enqueue(address: &str, jobs: usize) -> Result<()> {
    let mut connection = crate::http::Connection::open(address).await?;
    let mut left = jobs;
    while left > 0 {
        let some = left.min(ARRAY_MAX);
        let array = format!("[{}]", vec![JOB; some].join(","));
        connection.enqueue_all(array.as_bytes()).await?;
        left -= some;
    }
    Ok(())
}
