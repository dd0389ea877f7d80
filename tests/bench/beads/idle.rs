//! The cost of connected workers without a task: while their READY is held, and after they were sent WAIT.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::worker::{Message, Worker, beside};
use super::{HANDLER, HOLD_SECONDS, Host};
use crate::load;
use crate::process::status_mib;
use crate::report::{Report, Target};
use crate::rounds::single;

/// How many workers have no task.
pub(super) const WORKERS: usize = 1_000;

/// How many do tasks first, so that the cost of the very first tasks is not attributed to the others.
pub(super) const BUSY: usize = 8;

const MEMORY_MIB_MAX: f64 = 10.0;

/// Lets the host settle. Shorter than it holds a READY.
const SETTLE: Duration = Duration::from_secs(1);
const _: () = assert!(SETTLE.as_secs() < HOLD_SECONDS);

pub(super) async fn measure(report: &mut Report) -> Result<()> {
    eprintln!("{WORKERS} idle workers");
    let host = Host::start()?;
    let load = load::run_of(HANDLER, host.address(), single(16), SETTLE);
    beside(&host.socket, BUSY, load).await?;
    tokio::time::sleep(SETTLE).await;
    let pid = host.stage.server.pid();
    let before = status_mib(pid, "VmRSS")?;
    let mut workers = Vec::with_capacity(WORKERS);
    for number in 1..=WORKERS {
        let mut worker = Worker::open(&host.socket, number).await?;
        worker.ready().await?;
        workers.push(worker);
    }
    tokio::time::sleep(SETTLE).await;
    let held = status_mib(pid, "VmRSS")? - before;
    for worker in &mut workers {
        ensure!(worker.message().await? == Message::Wait, "there is no task");
    }
    tokio::time::sleep(SETTLE).await;
    let waiting = status_mib(pid, "VmRSS")? - before;
    for (name, used) in [("READY is held", held), ("sent WAIT", waiting)] {
        report.add(
            format!("memory of {WORKERS} idle workers, {name}"),
            "MiB",
            vec![used],
            Some(Target::AtMost(MEMORY_MIB_MAX)),
        );
    }
    drop(workers);
    host.stop()
}
