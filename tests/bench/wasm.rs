//! The bare engine: the host's loop of instantiate and call, in its sandbox.

use std::time::Duration;

use anyhow::{Context, Result};
use host_cell::pace::{self, Pace};
use host_tests::guests;

/// How long to measure the loop.
const MEASURED: Duration = Duration::from_secs(2);

/// Runs the bare loop on one core.
pub(crate) fn bare() -> Result<Pace> {
    let path = guests::component("basics");
    let component =
        std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    // On a thread of its own: the loop has a runtime, and this thread may already be in one.
    let measured = std::thread::spawn(move || pace::measure(&component, MEASURED));
    let measured = measured
        .join()
        .map_err(|_| anyhow::anyhow!("the bare loop panicked"))?;
    measured.map_err(|error| anyhow::anyhow!("the bare loop failed: {error:#}"))
}
