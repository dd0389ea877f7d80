//! The cost of runners that hold a lease and send a heartbeat each second.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval_at};

use super::enqueue;
use super::runner::Runner;
use crate::process::cpu_us;
use crate::report::{Report, Target};
use crate::{Args, Stage};

const RUNNERS: usize = 1_000;
const INTERVAL: Duration = Duration::from_secs(1);
const CORE_PERCENT_MAX: f64 = 5.0;

/// How long they run before the measurement, and how long it takes in a round.
const SETTLE: Duration = Duration::from_secs(3);
const SPAN: Duration = Duration::from_secs(10);

pub(super) async fn measure(args: &Args, stage: &Stage, report: &mut Report) -> Result<()> {
    eprintln!("{RUNNERS} runners with a heartbeat each second");
    let address = stage.server.address();
    enqueue(address, RUNNERS).await?;
    let sent = Arc::new(AtomicU64::new(0));
    let mut runners = JoinSet::new();
    let start = tokio::time::Instant::now();
    for number in 0..RUNNERS {
        let mut runner = Runner::open(address, number).await?;
        let lease = runner.lease(30).await?.context("no job has come")?;
        runner.ack(&lease).await?;
        let sent = Arc::clone(&sent);
        // Spread over the interval, like runners that start at different times.
        let share = u32::try_from(number).unwrap_or_default();
        let first = start + INTERVAL * share / 1_000;
        runners.spawn(async move {
            let mut ticks = interval_at(first, INTERVAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            loop {
                ticks.tick().await;
                runner.heartbeat(&lease).await?;
                sent.fetch_add(1, Ordering::Relaxed);
            }
            #[expect(unreachable_code, reason = "names the type of the error")]
            anyhow::Ok(())
        });
    }
    tokio::time::sleep(SETTLE).await;
    let (mut percents, mut rates) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds.min(3) {
        let (began, cpu, before) = (
            Instant::now(),
            cpu_us(stage.server.pid())?,
            sent.load(Ordering::Relaxed),
        );
        tokio::select! {
            () = tokio::time::sleep(SPAN) => {}
            Some(ended) = runners.join_next() => ended.context("a runner panicked")??,
        }
        let seconds = began.elapsed().as_secs_f64();
        percents.push((cpu_us(stage.server.pid())? - cpu) / 1e4 / seconds);
        #[expect(clippy::cast_precision_loss, reason = "counts here are far below 2^52")]
        rates.push((sent.load(Ordering::Relaxed) - before) as f64 / seconds);
    }
    report.add(
        format!("heartbeats of {RUNNERS} runners, CPU of the host"),
        "% of a core",
        percents,
        Some(Target::AtMost(CORE_PERCENT_MAX)),
    );
    report.add("heartbeats that were answered", "1/s", rates, None);
    Ok(())
}
