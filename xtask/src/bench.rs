//! `cargo xtask bench`: builds the host optimized, with the components it needs, and measures it.

use std::process::Command;

use anyhow::Result;

use crate::cargo::run;
use crate::progress::{Expected, step};
use crate::{guests, peers, programs, setup};

/// The measurement.
#[derive(clap::Args)]
#[command(
    after_help = "Examples: cargo xtask bench -o json, cargo xtask bench wires --case beads, \
                  cargo xtask bench postgres, cargo xtask bench peers, cargo xtask bench exposure, \
                  cargo xtask bench bounded, cargo xtask bench limits, cargo xtask bench egress, \
                  cargo xtask bench languages"
)]
pub(crate) struct Args {
    /// Passed to the bench: see `cargo xtask bench -- --help`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds and measures. Progress goes to standard error, so that JSON stays JSON.
pub(crate) fn run_all(args: &Args) -> Result<()> {
    setup::toolchain()?;
    step("components", Expected::MinuteAtFirst, guests::build)?;
    let runs = |name: &str| args.arguments.iter().any(|argument| argument == name);
    if runs("wires") {
        step("peers", Expected::MinuteAtFirst, || {
            peers::redis().and_then(|()| peers::socket_runner())
        })?;
    }
    if runs("peers") {
        step("Redis", Expected::MinuteAtFirst, peers::redis)?;
    }
    if ["postgres", "peers", "bounded"].into_iter().any(runs) {
        step("PostgreSQL", Expected::MinuteAtFirst, peers::postgres)?;
    }
    if runs("peers") {
        step("queues", Expected::MinuteAtFirst, peers::queues)?;
    }
    if runs("languages") {
        step("languages", Expected::MinuteAtFirst, peers::languages)?;
    }
    let bench = programs::optimized()?;
    eprintln!(
        "== the host and the bench have the profile `{}`",
        programs::PACKAGED
    );
    run(Command::new(bench).args(&args.arguments))
}
