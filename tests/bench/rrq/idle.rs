//! What connections cost that have been used once and are then left alone.

use std::time::Duration;

use anyhow::Result;

use super::OURS;
use super::frames::Client;
use crate::Stage;
use crate::process::status_mib;
use crate::report::{Report, Target};

const CONNECTIONS: usize = 1_000;
const MEMORY_MIB_MAX: f64 = 10.0;

/// Lets the listener come to rest.
const SETTLE: Duration = Duration::from_secs(1);

pub(super) fn measure(report: &mut Report) -> Result<()> {
    eprintln!("{CONNECTIONS} idle connections");
    let stage = Stage::start()?;
    let address = stage.server.rrq_address();
    let resident = || {
        #[expect(clippy::disallowed_methods, reason = "what is measured is rest")]
        std::thread::sleep(SETTLE);
        status_mib(stage.server.pid(), "VmRSS")
    };
    // What the first requests of all cost is not theirs.
    Client::open(address, OURS)?.rate(8, SETTLE)?;
    let before = resident()?;
    let mut open = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        let mut client = Client::open(address, OURS)?;
        client.rate(1, Duration::from_nanos(1))?;
        open.push(client);
    }
    let used = resident()? - before;
    report.add(
        format!("memory of {CONNECTIONS} idle connections"),
        "MiB",
        vec![used],
        Some(Target::AtMost(MEMORY_MIB_MAX)),
    );
    drop(open);
    stage.stop()
}
