//! `cargo xtask test`: sets up what the tests need and runs all of them. CI runs this.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use serde_json::Value;

use crate::cargo::{cargo, output, run_tests, run_tests_captured, show};
use crate::progress::Expected::{self, MinuteAtFirst, Minutes, MinutesAtFirst, Seconds};
use crate::progress::step;
use crate::{dist, guests, peers, programs, setup};

/// The suite to run.
#[derive(clap::Args)]
#[command(
    after_help = "Examples: cargo xtask test quick, cargo xtask test core, \
                  cargo xtask test docs --update"
)]
pub(crate) struct Args {
    /// Only the tests of this layer, without formatting and lints
    layer: Option<Layer>,
    /// Update the generated documents, with the layer `docs`
    #[arg(long)]
    update: bool,
}

/// A part of the project that can be tested alone.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Layer {
    /// Formatting, lints and all tests that start no host, with jobs in `SQLite`
    Quick,
    /// The rules
    Core,
    /// Time, ids, tasks and mailboxes
    Runtime,
    /// The stores
    Store,
    /// The dispatch loop
    Dispatch,
    /// What our HTTP servers and clients share
    Http,
    /// Sandboxes with real guests, and the host's side of them
    Cells,
    /// Sandboxes only
    Cell,
    /// The API: its types, the server, configuration and metrics
    Api,
    /// The dashboard's pages
    Web,
    /// The broker of outbound requests
    Egress,
    /// The wires
    Wires,
    /// The command line, and the client of the API
    Cli,
    /// The whole program, from outside
    E2e,
    /// The whole program, with the programs of other projects
    Peers,
    /// The guest SDK and the examples, natively
    Guests,
    /// The generated documents
    Docs,
    /// The project's rules about itself
    Tidy,
}

impl Layer {
    /// Returns the arguments of `cargo test`. A layer of a few packages selects them, so that nothing else is
    /// built; a layer that needs the host shares the build of the whole workspace.
    const fn selection(self) -> &'static [&'static str] {
        match self {
            Self::Quick => &["--workspace", "--lib", "--bin", "xtask", "--test", "store"],
            Self::Core => &["--package", "host-core"],
            Self::Runtime => &["--package", "host-runtime"],
            Self::Store => &["--package", "host-store"],
            Self::Dispatch => &["--package", "host-dispatch"],
            Self::Http => &["--package", "host-http"],
            Self::Cells => &["--package", "host-cell", "--package", "host-cells"],
            Self::Cell => &["--package", "host-cell"],
            Self::Api => &["--package", "host-api", "--package", "host-server"],
            Self::Web => &["--package", "host-web"],
            Self::Egress => &["--package", "host-egress"],
            Self::Wires => &["--package", "host-wire*"],
            Self::Cli => &[
                "--package",
                "host",
                "--package",
                "host-console",
                "--package",
                "host-api",
            ],
            Self::E2e => &["--workspace", "--bin", "bench", "--test", "e2e"],
            Self::Peers => &["--workspace", "--test", "peers"],
            Self::Guests => &[
                "--package",
                "host-guest-sdk",
                "--package",
                "basics",
                "--package",
                "markdown",
                "--package",
                "csv-summary",
                "--package",
                "first-real-job",
                "--package",
                "cases",
                "--package",
                "hero-rhai",
                "--package",
                "hero-heroscript",
            ],
            Self::Docs => &["--workspace", "--lib", "--test", "cli"],
            Self::Tidy => &["--package", "xtask"],
        }
    }

    /// Returns the arguments of the test programs.
    const fn filters(self) -> &'static [&'static str] {
        match self {
            Self::Quick => NOT_ON_SQLITE,
            Self::Docs => &["the_published_", "the_document_is_what_the_command_prints"],
            _ => &[],
        }
    }

    /// Installs and builds what the tests of the layer start.
    fn set_up(self) -> Result<()> {
        if matches!(self, Self::Cell | Self::Cells | Self::E2e | Self::Peers) {
            step("components", MinuteAtFirst, guests::build)?;
        }
        if self == Self::Peers {
            step("peers", MinuteAtFirst, peers::set_up)?;
        }
        if self == Self::E2e {
            step("tools of scripts", MinuteAtFirst, peers::shell_tools)?;
        }
        if matches!(self, Self::E2e | Self::Peers | Self::Store) {
            step("PostgreSQL", MinuteAtFirst, peers::postgres)?;
        }
        if matches!(self, Self::E2e | Self::Peers) {
            programs::as_in_tests()?;
        }
        Ok(())
    }
}

/// The store of the tests that can run on several.
const STORE: &str = "HOST_TEST_STORE";

/// Set to update generated documents.
const UPDATE: &str = "UPDATE_DOCS";

/// Leaves out the store's tests that need `PostgreSQL`.
const NOT_ON_SQLITE: &[&str] = &[
    "--skip=concurrent::",
    "--skip=copy::",
    "--skip=database_check::",
    "--skip=logs::",
    "--skip=nodes::",
    "--skip=postgres",
];

/// The variable that sets how many tests run at the same time.
const THREADS: &str = "RUST_TEST_THREADS";

/// The end-to-end suites that also run with jobs in a database.
const ON_POSTGRES: &[&str] = &[
    "deploy::",
    "durability::",
    "events::",
    "life::",
    "outbox::",
    "runners::",
    "scripts::",
];

/// Runs the tests.
pub(crate) fn run_all(args: &Args) -> Result<()> {
    setup::toolchain()?;
    ensure!(
        !args.update || args.layer == Some(Layer::Docs),
        "--update works only with the layer docs: run `cargo xtask test docs --update`"
    );
    let Some(layer) = args.layer else {
        return whole();
    };
    layer.set_up()?;
    let mut checks = Checks::default();
    if layer == Layer::Quick {
        checks.run("formatting", Seconds, cargo(&["fmt", "--all", "--check"]));
        checks.run("lints", MinutesAtFirst, lints());
    }
    let mut test = cargo_test();
    test.args(layer.selection()).arg("--").args(layer.filters());
    if layer == Layer::Quick {
        test.env(STORE, "sqlite");
    }
    if args.update {
        test.env(UPDATE, "1");
    }
    checks.run("tests", MinutesAtFirst, test);
    checks.end()
}

/// Runs everything, even after a failure.
fn whole() -> Result<()> {
    step("components", MinuteAtFirst, guests::build)?;
    step("peers", MinuteAtFirst, peers::set_up)?;
    step("PostgreSQL", MinuteAtFirst, peers::postgres)?;
    let mut checks = Checks::default();
    checks.run("formatting", Seconds, cargo(&["fmt", "--all", "--check"]));
    let rules = cargo(&["check", "--package", "host-core"]);
    checks.run("the rules alone", Seconds, rules);
    checks.run("lints", MinutesAtFirst, lints());
    programs::as_in_tests()?;
    checks.note(
        "packages",
        "cargo xtask dist-check",
        step("packages", Seconds, dist::check),
    );
    let mut compiled = cargo_test();
    compiled.args(["--workspace", "--no-run"]);
    checks.run("the tests, compiled", MinutesAtFirst, compiled);
    let mut on_postgres = cargo_test();
    on_postgres
        .args(["--workspace", "--test", "e2e", "--"])
        .args(ON_POSTGRES)
        .env(STORE, "postgres");
    let mut peers = cargo_test();
    peers.args(["--workspace", "--test", PEERS]);
    let mut tests = cargo_test();
    tests.args(["--workspace", "--lib", "--bins", "--examples"]);
    for target in integration_tests()?.iter().filter(|name| *name != PEERS) {
        tests.args(["--test", target]);
    }
    let mut doctests = cargo_test();
    doctests.args(["--workspace", "--doc"]);
    // Two rows of about the same length: where one waits, the other works.
    thread::scope(|scope| {
        let aside = scope.spawn(|| {
            let mut aside = Checks::default();
            aside.run_aside("tests with peers", peers);
            aside.run_aside("tests on PostgreSQL", on_postgres);
            aside
        });
        checks.run("tests", Minutes, tests);
        checks.run("tests in documents", Seconds, doctests);
        match aside.join() {
            Ok(aside) => checks.failed.extend(aside.failed),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    });
    checks.end()
}

/// The target of the tests with the programs of other projects.
const PEERS: &str = "peers";

/// Returns the names of all targets that are integration tests.
fn integration_tests() -> Result<BTreeSet<String>> {
    let json = output(&mut cargo(&[
        "metadata",
        "--no-deps",
        "--format-version",
        "1",
    ]))?;
    let metadata: Value = serde_json::from_str(&json).context("cargo metadata is not JSON")?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let targets = packages.flat_map(|package| package["targets"].as_array().into_iter().flatten());
    let tests = targets.filter(|target| target["kind"][0] == "test");
    Ok(tests
        .filter_map(|target| Some(target["name"].as_str()?.to_owned()))
        .collect())
}

/// The failures so far, each with the command that runs it alone.
#[derive(Default)]
struct Checks {
    failed: Vec<String>,
}

impl Checks {
    fn run(&mut self, name: &str, expected: Expected, mut command: Command) {
        let shown = show(&command);
        let result = step(name, expected, || run_tests(&mut command));
        self.note(name, &shown, result);
    }

    /// Runs a command while others use the terminal: its output comes when it has ended.
    fn run_aside(&mut self, name: &str, mut command: Command) {
        let shown = show(&command);
        let result = step(name, Minutes, || run_tests_captured(&mut command));
        self.note(name, &shown, result);
    }

    fn note(&mut self, name: &str, command: &str, result: Result<()>) {
        if let Err(error) = result {
            eprintln!("error: {error:#}");
            self.failed.push(format!("{name}: {command}"));
        }
    }

    fn end(self) -> Result<()> {
        ensure!(
            self.failed.is_empty(),
            "these failed; run each alone with its command, or a test target as cargo lists it, such as \
             `cargo test -p PACKAGE --lib`:\n {}",
            self.failed.join("\n    ")
        );
        Ok(())
    }
}

fn lints() -> Command {
    let mut lints = cargo(&["clippy", "--workspace", "--all-targets"]);
    lints.args(["--", "--deny", "warnings"]);
    lints
}

/// Makes a `cargo test` that runs twice as many concurrent tests as there are cores, unless `RUST_TEST_THREADS`
/// is set: tests that start programs mostly wait for them.
fn cargo_test() -> Command {
    let mut test = cargo(&["test", "--no-fail-fast"]);
    if std::env::var_os(THREADS).is_none() {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        test.env(THREADS, (2 * cores).to_string());
    }
    test
}
