//! `cargo xtask bench`: builds the host optimized, with the components it needs, and measures it.

use std::process::Command;

use anyhow::Result;

use crate::cargo::{cargo, run, target_dir};
use crate::{guests, peers, setup};

/// What to measure.
#[derive(clap::Args)]
#[command(
    after_help = "Examples: cargo xtask bench --only latency -o json, cargo xtask bench rrq, \
                  cargo xtask bench hero"
)]
pub(crate) struct Args {
    /// Passed on: see `cargo xtask bench -- --help`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds and measures. What is built is told on standard error, so that JSON stays JSON.
pub(crate) fn run_all(args: &Args) -> Result<()> {
    setup::toolchain()?;
    guests::build()?;
    let beside = |name: &str| args.arguments.iter().any(|argument| argument == name);
    if beside("rrq") {
        peers::set_up()?;
        peers::socket_runner()?;
    }
    if beside("hero") {
        peers::redis()?;
    }
    run(&mut cargo(&[
        "build",
        "--release",
        "--package",
        "host",
        "--package",
        "host-tests",
        "--bin",
        "host",
        "--bin",
        "bench",
    ]))?;
    let program = target_dir().join("release").join("bench");
    run(Command::new(program).args(&args.arguments))
}
