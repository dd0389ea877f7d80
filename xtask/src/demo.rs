//! `cargo xtask demo`: builds the host and the example handlers, and shows what they do.

use std::process::Command;

use anyhow::Result;

use crate::cargo::run;
use crate::progress::{Expected, step};
use crate::{guests, peers, programs, setup};

/// Builds with the tests' profile, so that each is quick after the other, and runs the demo.
pub(crate) fn run_all() -> Result<()> {
    setup::toolchain()?;
    step("Redis", Expected::MinuteAtFirst, peers::redis)?;
    step("components", Expected::MinuteAtFirst, guests::build)?;
    let demo = programs::as_in_tests()?;
    run(&mut Command::new(demo))
}
