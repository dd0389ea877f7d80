//! What an idle host uses.

use std::time::{Duration, Instant};

use anyhow::Result;
use host_tests::Server;

use crate::process::{cells_cpu_us, cpu_us, status_mib};
use crate::report::{Report, Target};

/// How long a host must have nothing to do before it counts as idle.
const SETTLE: Duration = Duration::from_secs(2);
const SPAN: Duration = Duration::from_secs(5);

const CPU_PERCENT_MAX: f64 = 1.0;
const MEMORY_MIB_MAX: f64 = 60.0;

pub(crate) async fn measure(server: &Server, report: &mut Report) -> Result<()> {
    eprintln!("a host at rest");
    tokio::time::sleep(SETTLE).await;
    let cpu = || anyhow::Ok(cpu_us(server.pid())? + cells_cpu_us(server.pid())?);
    let (start, before) = (Instant::now(), cpu()?);
    tokio::time::sleep(SPAN).await;
    let percent = (cpu()? - before) / 1e4 / start.elapsed().as_secs_f64();
    report.add(
        "at rest, CPU of orchestrator and cells",
        "%",
        vec![percent],
        Some(Target::AtMost(CPU_PERCENT_MAX)),
    );
    report.add(
        "at rest, memory of the orchestrator",
        "MiB",
        vec![status_mib(server.pid(), "VmRSS")?],
        Some(Target::AtMost(MEMORY_MIB_MAX)),
    );
    Ok(())
}
