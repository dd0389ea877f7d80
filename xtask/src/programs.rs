//! Builds the programs that the demo, the tests and the bench start. Each build selects the whole
//! workspace and then names targets: cargo unites the features of all packages that are selected, so
//! another selection would build tokio and whatever uses it a second time.

use std::path::PathBuf;

use anyhow::Result;

use crate::cargo::{cargo, run, target_dir};
use crate::progress::{Expected, step};

/// Builds the host and the demo as tests build them, and returns the demo. It is an example, which
/// cargo builds with the features of development dependencies, as it does for tests.
pub(crate) fn as_in_tests() -> Result<PathBuf> {
    build(
        "the host and the demo",
        &["--bin", "host", "--example", "demo"],
    )?;
    Ok(target_dir().join("debug").join("examples").join("demo"))
}

/// The profile of packages and the bench, and its folder below the target folder.
pub(crate) const PACKAGED: &str = "packaged";

/// Builds the host as it is packaged, and the bench, which it returns.
pub(crate) fn optimized() -> Result<PathBuf> {
    build(
        "the host and the bench, optimized",
        &["--profile", PACKAGED, "--bin", "host", "--bin", "bench"],
    )?;
    Ok(target_dir().join(PACKAGED).join("bench"))
}

fn build(name: &str, args: &[&str]) -> Result<()> {
    step(name, Expected::MinutesAtFirst, || {
        run(cargo(&["build"]).args(args))
    })
}
