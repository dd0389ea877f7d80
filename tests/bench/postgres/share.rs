//! A backlog of CPU-bound jobs that is enqueued at one node. Each host has a core of its own, as if on a machine of its
//! own, and takes jobs of the other's backlog.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use host_tests::{Cluster, eventually};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::json;

use super::Database;
use crate::report::{Report, Target};
use crate::{Args, Stage};

/// How many jobs there are. Each burns its fuel in some 16 ms.
const JOBS: usize = 1_000;

/// What two nodes may take, compared with one.
const SHARE_MAX: f64 = 0.6;

/// How long the jobs may take.
const PATIENCE: Duration = Duration::from_mins(5);

pub(super) fn measure(args: &Args, cluster: &Cluster, report: &mut Report) -> Result<()> {
    let first = on_core(0, &Database::make(cluster, "share_1")?)?;
    let database = Database::make(cluster, "share_2")?;
    let pair = [on_core(0, &database)?, on_core(1, &database)?];
    for stage in &pair {
        eventually("each node to see the other", PATIENCE, || {
            (stage.server.client().items("/api/v1/nodes").len() == 2).then_some(())
        });
    }
    let (mut alone, mut shared) = (Vec::new(), Vec::new());
    for round in 0..=args.rounds {
        eprintln!("round {round} of {}, a backlog at one node", args.rounds);
        let (one, two) = (backlog(&first)?, backlog(&pair[0])?);
        // The first round compiles.
        if round > 0 {
            alone.push(one);
            shared.push(two);
        }
    }
    for stage in std::iter::once(first).chain(pair) {
        stage.stop()?;
    }
    let (name, beside) = ("CPU-bound jobs, two nodes", "CPU-bound jobs, one node");
    report.add(name, "s", shared, None);
    report.add(beside, "s", alone, None);
    let target = Target::AtMost(SHARE_MAX);
    report.ratio("two nodes to one, time", name, beside, target);
    Ok(())
}

/// Starts a host that may only use one core.
fn on_core(core: usize, database: &Database) -> Result<Stage> {
    let all = sched_getaffinity(None).context("cannot read the cores of this thread")?;
    let mut one = CpuSet::new();
    one.set(core);
    sched_setaffinity(None, &one).with_context(|| format!("cannot use core {core} alone"))?;
    let stage = database.stage_of("hostile");
    sched_setaffinity(None, &all).context("cannot use all cores again")?;
    stage
}

/// Enqueues the jobs at a host. Returns how many seconds it takes until all have ended.
fn backlog(stage: &Stage) -> Result<f64> {
    let client = stage.server.client();
    let discarded = || {
        let queue = client.get("/api/v1/queues/default").ok()?.body;
        queue["counts"]["discarded"].as_u64()
    };
    let before = discarded().unwrap_or_default();
    let job = json!({"handler": "burn", "max_attempts": 1});
    let begun = Instant::now();
    client.post("/api/v1/jobs", &json!(vec![job; JOBS]))?;
    eventually("all jobs to end", PATIENCE, || {
        (discarded()? - before >= JOBS as u64).then_some(())
    });
    Ok(begun.elapsed().as_secs_f64())
}
