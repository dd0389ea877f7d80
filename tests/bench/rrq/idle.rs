//! The cost of idle connections that have been used once.

use std::time::Duration;

use anyhow::Result;

use super::OURS;
use super::frames::Client;
use crate::Stage;
use crate::process::status_mib;
use crate::report::{Report, Target};

const CONNECTIONS: usize = 1_000;
const MEMORY_MIB_MAX: f64 = 10.0;

/// Long enough for a round trip.
const ONCE: Duration = Duration::from_millis(1);

/// Lets the listener settle.
const SETTLE: Duration = Duration::from_secs(1);

pub(super) async fn measure(report: &mut Report) -> Result<()> {
    eprintln!("{CONNECTIONS} idle connections");
    let stage = Stage::start()?;
    let address = stage.server.rrq_address();
    // The cost of the very first requests is not theirs.
    tokio::task::block_in_place(|| Client::open(address, OURS)?.rate(8, SETTLE))?;
    tokio::time::sleep(SETTLE).await;
    let before = status_mib(stage.server.pid(), "VmRSS")?;
    let open = tokio::task::block_in_place(|| {
        let open = (0..CONNECTIONS).map(|_| {
            let mut client = Client::open(address, OURS)?;
            client.rate(1, ONCE)?;
            anyhow::Ok(client)
        });
        open.collect::<Result<Vec<Client>>>()
    })?;
    tokio::time::sleep(SETTLE).await;
    let used = status_mib(stage.server.pid(), "VmRSS")? - before;
    report.add(
        format!("memory of {CONNECTIONS} idle connections"),
        "MiB",
        vec![used],
        Some(Target::AtMost(MEMORY_MIB_MAX)),
    );
    drop(open);
    stage.stop()
}
