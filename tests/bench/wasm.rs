//! What the engine can do by itself: the host's own loop of instantiate and call, in its sandbox.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use host_tests::{guests, server};
use serde::Deserialize;

/// What `host cell bench` prints.
#[derive(Deserialize)]
pub(crate) struct Bare {
    pub(crate) calls_per_second: f64,
    pub(crate) cpu_us_per_call: f64,
}

/// Runs the bare loop on one core.
pub(crate) fn bare() -> Result<Bare> {
    let output = Command::new(server::host())
        .args(["cell", "bench"])
        .arg(guests::component("basics"))
        .output()
        .context("cannot start `host cell bench`")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "`host cell bench` failed: {}",
        stderr.trim()
    );
    serde_json::from_slice(&output.stdout).context("`host cell bench` printed something else")
}
