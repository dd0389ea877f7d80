//! No-op tasks: our control plane, which keeps them on disk, dispatches them to our worker over loopback, in
//! turns with the same load in the cells of another host.

use std::time::Duration;

use anyhow::Result;
use host_tests::{ArcoWorker, ports};

use super::SECRET;
use crate::report::{Report, Target};
use crate::rounds::single;
use crate::{Args, Stage, load};

const IN_FLIGHT: usize = 256;

const TASKS: &str = "tasks through our worker, 256 in flight";
const CELLS: &str = "HTTP, 256 jobs in flight, in turns with it";

const TASKS_PER_SECOND_MIN: f64 = 3_000.0;

/// The queue of the load goes to the worker.
const SETTINGS: &str = "[queues.bench]\nrunner = \"spark\"\n";

pub(super) async fn measure(args: &Args, report: &mut Report) -> Result<()> {
    let span = Duration::from_secs_f64(args.seconds);
    let port = ports::free(1);
    let url = format!("http://127.0.0.1:{port}");
    let workers = [("spark".to_owned(), url, IN_FLIGHT)];
    let plane = super::control_plane(SETTINGS, &workers)?;
    let origin = format!("http://{}", plane.server.address());
    let concurrency = ["--concurrency".to_owned(), IN_FLIGHT.to_string()];
    let worker = ArcoWorker::start_with(plane.folder.path(), port, SECRET, &origin, &concurrency);
    let beside = Stage::start()?;
    let (mut tasks, mut cells) = (Vec::new(), Vec::new());
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}, tasks", args.rounds);
        tasks.push(load::run(plane.server.address(), single(IN_FLIGHT), span).await?);
        cells.push(load::run(beside.server.address(), single(IN_FLIGHT), span).await?);
    }
    worker.stop();
    plane.stop()?;
    beside.stop()?;
    let column = |of: fn(&load::Sample) -> f64| tasks.iter().map(of).collect::<Vec<_>>();
    let target = Some(Target::AtLeast(TASKS_PER_SECOND_MIN));
    report.add(TASKS, "jobs/s", column(|it| it.jobs_per_second), target);
    report.add(format!("{TASKS}: p50"), "ms", column(|it| it.p50_ms), None);
    report.add(format!("{TASKS}: p99"), "ms", column(|it| it.p99_ms), None);
    let cells = cells.iter().map(|it| it.jobs_per_second).collect();
    report.add(CELLS, "jobs/s", cells, None);
    report.ratio("tasks to jobs in cells", TASKS, CELLS, None);
    Ok(())
}
