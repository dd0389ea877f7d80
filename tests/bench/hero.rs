//! A host as a worker of Hero dispatchers, compared with plain clients of the same Redis with one request per
//! round trip: jobs drained, scripts, and how soon a job starts and stops.

mod drain;
mod raw;
mod record;
mod resp;
mod times;

use std::path::Path;

use anyhow::{Context, Result};
use host_tests::Redis;
use redis::Connection;

use crate::report::Report;
use crate::{Args, Part, Stage};

/// The worker id of the host.
const WORKER: &str = "bench";

/// The rows for comparison; tests/bench/README.md explains all.
const ABOUT: &str = "\
50 clients: for each job the client's commands and all that our worker sends for it, one request per
round trip. redis-benchmark: -c 50 without -P, each command of the document's worker by itself.";

pub(crate) fn measure(args: &Args, report: &mut Report) -> Result<()> {
    eprintln!("{ABOUT}");
    let redis = Redis::start();
    let stage = host(&redis)?;
    if args.wants(Part::Drain) {
        drain::measure(args, &redis, &stage, report)?;
    }
    if args.wants(Part::Times) {
        times::measure(args, &redis, report)?;
    }
    stage.stop()?;
    if args.wants(Part::Drain) {
        drain::with_file(args, report)?;
    }
    Ok(())
}

/// Starts a host that runs the jobs of [`WORKER`].
fn host(redis: &Redis) -> Result<Stage> {
    let folder = crate::build_folder()?;
    let config = tempfile::NamedTempFile::new_in(&folder).context("cannot make a file")?;
    std::fs::write(&config, settings(redis)).context("cannot write the configuration")?;
    Stage::with(
        &["basics", "hero-rhai"],
        vec!["--config".to_owned(), shown(config.path())],
    )
}

fn settings(redis: &Redis) -> String {
    format!(
        "[protocol.hero]\nurl = \"{}\"\nworker_ids = [\"{WORKER}\"]\n",
        redis.url()
    )
}

/// Returns how many jobs wait or run.
fn left(redis: &mut Connection, worker: &str) -> Result<usize> {
    let mut both = redis::pipe();
    for list in ["work_queue", "processing"] {
        both.cmd("LLEN").arg(format!("hero:{list}:{worker}"));
    }
    let (waiting, running): (usize, usize) = both.query(redis)?;
    Ok(waiting + running)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
