//! `cargo xtask test`: sets up what the tests need and runs all of them. What CI runs.

use std::time::Instant;

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::cargo::{cargo, run};
use crate::{guests, peers, setup};

/// What to test.
#[derive(clap::Args)]
#[command(after_help = "Example: cargo xtask test core")]
pub(crate) struct Args {
    /// Only the tests of this layer, without formatting and lints
    layer: Option<Layer>,
}

/// A part of the project that is tested by itself.
#[derive(Clone, Copy, ValueEnum)]
enum Layer {
    /// The rules
    Core,
    /// The stores
    Store,
    /// Sandboxes, with real guests
    Cell,
    /// The orchestrator, with cells that are not real
    Server,
    /// The wires
    Protocols,
    /// The command line
    Cli,
    /// The whole program, from outside
    E2e,
    /// The whole program and the real programs of others
    Peers,
    /// The guest SDK and the examples, natively
    Guests,
    /// The project's own rules about itself
    Tidy,
}

impl Layer {
    const fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Core => &["host-core"],
            Self::Store => &["host-store"],
            Self::Cell => &["host-cell", "host-socket"],
            Self::Server => &["host-server"],
            Self::Protocols => &["host-protocols"],
            Self::Cli => &["host"],
            Self::E2e | Self::Peers => &["host-tests"],
            Self::Guests => &[
                "host-guest-sdk",
                "basics",
                "markdown",
                "csv-summary",
                "hero-rhai",
                "hero-heroscript",
            ],
            Self::Tidy => &["xtask"],
        }
    }

    /// Returns which of their tests, all if it is empty.
    const fn targets(self) -> &'static [&'static str] {
        match self {
            Self::E2e => &["--lib", "--bins", "--test", "e2e"],
            Self::Peers => &["--test", "peers"],
            _ => &[],
        }
    }
}

/// Runs the tests.
pub(crate) fn run_all(args: &Args) -> Result<()> {
    setup::toolchain()?;
    if let Some(layer) = args.layer {
        guests::build()?;
        program()?;
        if matches!(layer, Layer::Peers) {
            peers::set_up()?;
        }
        let mut test = cargo(&["test"]);
        for package in layer.packages() {
            test.args(["--package", package]);
        }
        return run(test.args(layer.targets()));
    }
    step("formatting", || {
        run(&mut cargo(&["fmt", "--all", "--check"]))
    })?;
    step("the rules alone", || {
        run(&mut cargo(&["check", "--package", "host-core"]))
    })?;
    step("components", || guests::build().map(drop))?;
    step("peers", peers::set_up)?;
    step("lints", || {
        run(cargo(&["clippy", "--workspace", "--all-targets"]).args(["--", "--deny", "warnings"]))
    })?;
    step("program", program)?;
    step("tests", || run(&mut cargo(&["test", "--workspace"])))
}

/// Builds the program that the suites start.
fn program() -> Result<()> {
    run(&mut cargo(&["build", "--package", "host"]))
}

fn step(name: &'static str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    eprintln!("== {name}");
    let start = Instant::now();
    work().with_context(|| format!("the step `{name}` failed"))?;
    eprintln!("== {name}: done in {:.0} s", start.elapsed().as_secs_f64());
    Ok(())
}
