//! Jobs from enqueue to done: RRQ with its own runner, RRQ with ours, and our own queue, which keeps
//! every job on disk, in turns.

use std::time::Duration;

use anyhow::Result;

use super::upstream::{Orchestrator, Runner};
use crate::numbers::{median, percentile, sorted};
use crate::report::{Report, Target};
use crate::rounds::single;
use crate::{Args, Stage, load};

/// How many jobs an orchestrator gets at once, how often in a round, how many for warm-up, and how many
/// follow one by one.
const JOBS: usize = 8_000;
const TIMES: usize = 3;
const WARMUP_JOBS: usize = 1_000;
const SINGLE_JOBS: usize = 200;

const HOST_RATIO_MIN: f64 = 3.0;

const WITH_THEIRS: &str = "RRQ with socket_runner";
const WITH_OURS: &str = "RRQ with host worker";
const BEST: &str = "RRQ at its best";
const HOST: &str = "host, durable";

/// The results so far: rates and median times.
#[derive(Default)]
struct Shown {
    rates: Vec<f64>,
    p50s: Vec<f64>,
}

pub(super) async fn measure(args: &Args, report: &mut Report) -> Result<()> {
    let span = Duration::from_secs_f64(args.seconds);
    let stage = Stage::start()?;
    let [mut theirs, mut ours, mut host] = [(); 3].map(|()| Shown::default());
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}, jobs", args.rounds);
        theirs.add(Runner::Theirs).await?;
        ours.add(Runner::Ours).await?;
        let sample = load::run(stage.server.address(), single(256), span).await?;
        host.rates.push(sample.jobs_per_second);
        let sample = load::run(stage.server.address(), single(1), span).await?;
        host.p50s.push(sample.p50_ms);
    }
    stage.stop()?;
    let best_rate = median(&theirs.rates).max(median(&ours.rates));
    let best_p50 = median(&theirs.p50s).min(median(&ours.p50s));
    let best = Shown {
        rates: vec![best_rate],
        p50s: vec![best_p50],
    };
    for (name, shown) in [
        (WITH_THEIRS, theirs),
        (WITH_OURS, ours),
        (BEST, best),
        (HOST, host),
    ] {
        report.add(name, "jobs/s", shown.rates, None);
        report.add(p50(name), "ms", shown.p50s, None);
    }
    // Without a target: it depends on which core runs which thread.
    report.ratio("as a runner: ours to theirs", WITH_OURS, WITH_THEIRS, None);
    let orchestrator = Target::AtLeast(HOST_RATIO_MIN);
    report.ratio("host to RRQ at its best", HOST, BEST, orchestrator);
    let below = Target::AtMost(1.0);
    let name = p50("host to RRQ at its best");
    report.ratio(&name, &p50(HOST), &p50(BEST), below);
    Ok(())
}

fn p50(name: &str) -> String {
    format!("{name}: p50, one by one")
}

impl Shown {
    async fn add(&mut self, runner: Runner) -> Result<()> {
        let mut orchestrator = tokio::task::block_in_place(|| Orchestrator::start(runner))?;
        orchestrator.rate(WARMUP_JOBS).await?;
        for _ in 0..TIMES {
            self.rates.push(orchestrator.rate(JOBS).await?);
        }
        let times = tokio::task::block_in_place(|| orchestrator.latencies(SINGLE_JOBS))?;
        let times = sorted(&times);
        self.p50s.push(percentile(&times, 0.5));
        Ok(())
    }
}
