//! `cargo xtask test`: sets up what the tests need and runs all of them. What CI runs.

use std::num::NonZero;
use std::process::Command;
use std::thread;

use anyhow::Result;
use clap::ValueEnum;

use crate::cargo::{cargo, run};
use crate::progress::Expected::{MinuteAtFirst, Minutes, MinutesAtFirst, Seconds};
use crate::progress::step;
use crate::{dist, guests, peers, programs, setup};

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
    Wires,
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
    /// Returns the packages, none for the whole workspace: suites that start the host share its build.
    const fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Core => &["host-core"],
            Self::Store => &["host-store"],
            Self::Cell => &["host-cell"],
            Self::Server => &["host-server"],
            Self::Wires => &["host-wires"],
            Self::Cli => &["host"],
            Self::E2e | Self::Peers => &[],
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
            Self::E2e => &["--bin", "bench", "--test", "e2e"],
            Self::Peers => &["--test", "peers"],
            _ => &[],
        }
    }
}

/// The variable by which `cargo test` is told how many tests run at once.
const THREADS: &str = "RUST_TEST_THREADS";

/// The end-to-end suites that also run with jobs in a database.
const ON_POSTGRES: &[&str] = &[
    "deploy::",
    "durability::",
    "events::",
    "life::",
    "runners::",
    "scripts::",
];

/// Runs the tests.
pub(crate) fn run_all(args: &Args) -> Result<()> {
    setup::toolchain()?;
    if let Some(layer) = args.layer {
        step("components", MinuteAtFirst, guests::build)?;
        if matches!(layer, Layer::Peers) {
            step("peers", MinuteAtFirst, peers::set_up)?;
        }
        if matches!(layer, Layer::E2e) {
            step("socat and jq", MinuteAtFirst, peers::shell_tools)?;
        }
        if matches!(layer, Layer::E2e | Layer::Store) {
            step("PostgreSQL", MinuteAtFirst, peers::postgres)?;
        }
        programs::as_in_tests()?;
        let mut test = cargo_test();
        for package in layer.packages() {
            test.args(["--package", package]);
        }
        test.args(layer.targets());
        return step("tests", MinutesAtFirst, || run(&mut test));
    }
    step("formatting", Seconds, || {
        run(&mut cargo(&["fmt", "--all", "--check"]))
    })?;
    step("the rules alone", Seconds, || {
        run(&mut cargo(&["check", "--package", "host-core"]))
    })?;
    step("components", MinuteAtFirst, guests::build)?;
    step("peers", MinuteAtFirst, peers::set_up)?;
    step("PostgreSQL", MinuteAtFirst, peers::postgres)?;
    step("lints", MinutesAtFirst, || {
        run(cargo(&["clippy", "--workspace", "--all-targets"]).args(["--", "--deny", "warnings"]))
    })?;
    programs::as_in_tests()?;
    step("packages", Seconds, dist::check)?;
    step("tests", Minutes, || run(cargo_test().arg("--workspace")))?;
    step("tests on PostgreSQL", MinuteAtFirst, || {
        let mut test = cargo_test();
        test.args(["--workspace", "--test", "e2e", "--"]);
        run(test.args(ON_POSTGRES).env("HOST_TEST_STORE", "postgres"))
    })
}

/// Makes a `cargo test` that runs twice as many tests at once as there are cores, unless
/// `RUST_TEST_THREADS` says how many: those that start programs mostly wait for them.
fn cargo_test() -> Command {
    let mut test = cargo(&["test"]);
    if std::env::var_os(THREADS).is_none() {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        test.env(THREADS, (2 * cores).to_string());
    }
    test
}
