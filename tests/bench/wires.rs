//! One row for each wire: no-op jobs through it as fast as they go, in turns with the same host's jobs in its own cells.

mod arco;
mod beads;
mod delta;
mod hero;
mod rrq;

use anyhow::Result;

use crate::load::{run, single};
use crate::report::Report;
use crate::{Args, Stage};

/// How many of a wire's jobs are in flight.
const IN_FLIGHT: usize = 64;

pub(crate) async fn measure(args: &Args, report: &mut Report) -> Result<()> {
    if args.wants("rrq") {
        rrq::measure(args, report)?;
    }
    if args.wants("hero") {
        let hero = hero::Hero::start()?;
        in_turns(args, "hero", &hero.stage, report, async || hero.rate()).await?;
        hero.stage.stop()?;
    }
    if args.wants("delta") {
        let stage = delta::start()?;
        in_turns(args, "delta", &stage, report, async || {
            delta::rate(stage.address()).await
        })
        .await?;
        stage.stop()?;
    }
    if args.wants("beads") {
        let beads = beads::Beads::start()?;
        in_turns(args, "beads", &beads.stage, report, async || {
            beads.rate(args.span()).await
        })
        .await?;
        beads.stage.stop()?;
    }
    if args.wants("arco") {
        let arco = arco::Arco::start()?;
        in_turns(args, "arco", &arco.stage, report, async || {
            arco.rate(args.span()).await
        })
        .await?;
        arco.stop()?;
    }
    Ok(())
}

/// Measures jobs through a wire, and in cells of the same host, round by round.
async fn in_turns(
    args: &Args,
    wire: &str,
    stage: &Stage,
    report: &mut Report,
    mut rate: impl AsyncFnMut() -> Result<f64>,
) -> Result<()> {
    let cells = format!("{wire}: jobs in cells, in turns with it");
    // The first round compiles and opens connections.
    rate().await?;
    for _ in args.rounds(wire) {
        report.push(wire, "jobs/s", rate().await?);
        let sample = run(stage.address(), single(IN_FLIGHT), args.span()).await?;
        report.push(&cells, "jobs/s", sample.jobs_per_second);
    }
    report.ratio(&format!("{wire} to jobs in cells"), wire, &cells, None);
    Ok(())
}
