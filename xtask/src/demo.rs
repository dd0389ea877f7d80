//! `cargo xtask demo`: builds the host and the example handlers, and shows what they do.

use std::process::Command;

use anyhow::Result;

use crate::cargo::{cargo, run, target_dir};
use crate::{guests, peers, setup};

/// Builds with the profile of the tests, so that either is quick after the other, and shows.
pub(crate) fn run_all() -> Result<()> {
    setup::toolchain()?;
    peers::redis()?;
    guests::build()?;
    run(&mut cargo(&[
        "build",
        "--package",
        "host",
        "--package",
        "host-tests",
        "--bin",
        "host",
        "--bin",
        "demo",
    ]))?;
    run(&mut Command::new(target_dir().join("debug").join("demo")))
}
