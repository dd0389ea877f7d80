//! How many tasks 64 workers do in a second, each accepted, handed out and ended on disk, in turns with jobs
//! in our own cells over the same HTTP.

use std::time::Duration;

use anyhow::{Result, ensure};
use host_tests::Server;
use tempfile::TempDir;

use super::worker::beside;
use super::{HANDLER, Host};
use crate::load::{self, Sample, Shape};
use crate::numbers::count;
use crate::report::{Report, Target};
use crate::rounds::{SYNC, arrays, single};
use crate::{Args, disk, process};

const WORKERS: usize = 64;

/// How many jobs are in flight: enough that work always waits for each worker.
const ARRAYS: Shape = arrays(2_560);

/// How many appends are synced one after the other in a round.
const SYNCS: usize = 200;

const TASKS_PER_SECOND_MIN: f64 = 10_000.0;

/// The results so far.
#[derive(Default)]
struct Rounds {
    sync_ms: Vec<f64>,
    singles: Vec<Sample>,
    arrays: Vec<Sample>,
    tasks: Vec<Sample>,
    arrays_cpu_us: Vec<f64>,
    tasks_cpu_us: Vec<f64>,
}

pub(super) async fn measure(args: &Args, host: &Host, report: &mut Report) -> Result<()> {
    let span = Duration::from_secs_f64(args.seconds);
    let (server, address) = (&host.stage.server, host.address());
    let mut rounds = Rounds::default();
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}, tasks", args.rounds);
        let folder = TempDir::new_in(crate::build_folder()?)?;
        let path = folder.path().join("syncs");
        rounds.sync_ms.push(disk::sync_ms(&path, SYNCS)?);
        let single = load::run(address, single(256), span).await?;
        rounds.singles.push(single);
        let before = process::cpu_us(server.pid())?;
        let in_cells = load::run(address, ARRAYS, span).await?;
        let between = process::cpu_us(server.pid())?;
        let load = load::run_of(HANDLER, address, ARRAYS, span);
        let tasks = beside(&host.socket, WORKERS, load).await?;
        let after = process::cpu_us(server.pid())?;
        let each = |used: f64, sample: &Sample| used / count(sample.jobs);
        rounds.arrays_cpu_us.push(each(between - before, &in_cells));
        rounds.tasks_cpu_us.push(each(after - between, &tasks));
        rounds.arrays.push(in_cells);
        rounds.tasks.push(tasks);
    }
    rounds.check(server)?;
    rounds.report(report);
    process::memory(server, "under these loads", report)
}

impl Rounds {
    /// Checks that each job has completed exactly once.
    fn check(&self, server: &Server) -> Result<()> {
        let samples = self.singles.iter().chain(&self.arrays).chain(&self.tasks);
        let jobs: usize = samples.map(|sample| sample.jobs).sum();
        let path = format!("/api/v1/queues/{}", load::QUEUE);
        let counts = server.client().get(&path)?.body["counts"].clone();
        ensure!(
            counts["completed"].as_u64() == u64::try_from(jobs).ok(),
            "not all of {jobs} jobs have completed: {counts}"
        );
        Ok(())
    }

    fn report(self, report: &mut Report) {
        let rates = |samples: &[Sample]| samples.iter().map(|it| it.jobs_per_second).collect();
        let (http, cells) = (single(256).name(), ARRAYS.name());
        let tasks = format!("tasks, {WORKERS} workers");
        report.add(SYNC, "ms", self.sync_ms, None);
        report.add(http.as_str(), "jobs/s", rates(&self.singles), None);
        report.add(cells.as_str(), "jobs/s", rates(&self.arrays), None);
        let target = Target::AtLeast(TASKS_PER_SECOND_MIN);
        report.add(tasks.as_str(), "tasks/s", rates(&self.tasks), Some(target));
        report.ratio("tasks to HTTP, 256 jobs in flight", &tasks, &http, None);
        report.ratio("tasks to the same jobs in cells", &tasks, &cells, None);
        let cpu = "CPU of the orchestrator";
        report.add(
            format!("{cells}: {cpu}"),
            "µs/job",
            self.arrays_cpu_us,
            None,
        );
        report.add(
            format!("{tasks}: {cpu}"),
            "µs/task",
            self.tasks_cpu_us,
            None,
        );
    }
}
