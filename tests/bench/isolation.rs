//! The cost of isolated components: the same load on a host with shared cells and on one with cells of one
//! component each, in turns.

use std::time::Duration;

use anyhow::Result;

use crate::numbers::count;
use crate::report::{Report, Target};
use crate::rounds::single;
use crate::{Args, Stage, load, process};

/// The result of a load on one host.
#[derive(Default)]
struct Column {
    jobs_per_second: Vec<f64>,
    cpu_us_per_job: Vec<f64>,
}

impl Column {
    async fn add(&mut self, stage: &Stage, span: Duration) -> Result<()> {
        let pid = stage.server.pid();
        let cpu_us = || anyhow::Ok(process::cpu_us(pid)? + process::cells_cpu_us(pid)?);
        let before = cpu_us()?;
        let sample = load::run(stage.server.address(), single(256), span).await?;
        self.jobs_per_second.push(sample.jobs_per_second);
        self.cpu_us_per_job
            .push((cpu_us()? - before) / count(sample.jobs));
        Ok(())
    }
}

pub(crate) async fn measure(args: &Args, shared: &Stage, report: &mut Report) -> Result<()> {
    let component = vec!["--cell-isolation=component".to_owned()];
    let isolated = Stage::with(&["basics", "hostile"], component)?;
    let span = Duration::from_secs_f64(args.seconds);
    let (mut without, mut with) = (Column::default(), Column::default());
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}, with isolation", args.rounds);
        without.add(shared, span).await?;
        with.add(&isolated, span).await?;
    }
    let name = "HTTP, 256 jobs in flight, a component per cell";
    let beside = "HTTP, 256 jobs in flight, cells for all";
    report.add(name, "jobs/s", with.jobs_per_second, None);
    report.add(beside, "jobs/s", without.jobs_per_second, None);
    let (with_cpu, without_cpu) = (format!("{name}: CPU"), format!("{beside}: CPU"));
    report.add(with_cpu.as_str(), "µs/job", with.cpu_us_per_job, None);
    report.add(without_cpu.as_str(), "µs/job", without.cpu_us_per_job, None);
    report.ratio(
        "CPU with a component per cell to cells for all",
        &with_cpu,
        &without_cpu,
        Target::AtMost(1.2),
    );
    process::memory(&isolated.server, "with a component per cell", report)?;
    isolated.stop()
}
