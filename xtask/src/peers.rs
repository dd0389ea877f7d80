//! Installs what the suite of real peers needs from other projects: Debian's Redis and Chromium, and each release that it
//! tests against in a folder under `target/peers`.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::cargo::{cargo, root, run, target_dir};
use crate::setup;

/// Environments from `PyPI`: RRQ's last release with the documented dialect, and its newest; an independent
/// Hero client; what checks the types of our client and the `OpenAPI` document; what makes packages; and services of AWS. Each is a file in [`REQUIREMENTS`] with the hashes of all packages.
const PYTHON: &[&str] = &[
    "rrq-0.9.14",
    "rrq-0.11.1",
    "redis-7.1.1",
    "mypy-2.4.1",
    "build-1.6.1",
    "moto-5.2.1",
];

/// The folder of these files, which `uv pip compile --universal --generate-hashes` writes.
const REQUIREMENTS: &str = "tests/peers/requirements";

/// The release of the crate `rrq-runner`, and its example.
const RRQ_RUNNER_RELEASE: &str = "0.11.1";
const SOCKET_RUNNER: &str = "socket_runner";

/// A runner based on that crate with more handlers, and its build folder.
const RUST_RUNNER: &str = "tests/rust-runner";
const RUST_RUNNER_BUILD: &str = "rust-runner";

/// Where Debian installs `PostgreSQL`, with a folder per release.
const POSTGRES: &str = "/usr/lib/postgresql";

/// Debian's pooler, which is only on root's path.
const PGBOUNCER: &str = "/usr/sbin/pgbouncer";

/// Queues of other projects, according to the bench's lock file, and the bench's loads for them.
const QUEUES: &str = "bullmq-5.81.5-graphile-worker-0.18.0";
const QUEUES_FILES: &str = "tests/bench/queues";
const QUEUES_PROGRAMS: &[&str] = &["bullmq.mjs", "graphile_worker.mjs", "in_flight.mjs"];

/// The compiler of TypeScript, according to the lock file of our client.
const TYPESCRIPT: &str = "typescript-5.9.3";
const TYPESCRIPT_FILES: &str = "clients/typescript";

/// What finds barriers on pages, according to its lock file, and Debian's browser that shows them.
const AXE: &str = "axe-core-4.14.1";
const AXE_FILES: &str = "tests/peers/dashboard";
const CHROMIUM: &str = "chromium-headless-shell";

/// Written when a folder is complete.
const COMPLETE: &str = "complete";

/// Installs what is missing.
pub(crate) fn set_up() -> Result<()> {
    redis()?;
    shell_tools()?;
    let folder = target_dir().join("peers");
    for name in PYTHON {
        python(&folder, name)?;
    }
    node(TYPESCRIPT, TYPESCRIPT_FILES, &[])?;
    chromium()?;
    node(AXE, AXE_FILES, &[])?;
    languages()?;
    rust_runner(&folder.join(RUST_RUNNER_BUILD))
}

/// Installs what builds handlers in other languages; `host build` installs the rest.
pub(crate) fn languages() -> Result<()> {
    if !setup::is_there("node") || !setup::is_there("npm") {
        setup::install(&["nodejs", "npm"])?;
    }
    let has_pip = Command::new("python3")
        .args(["-m", "pip", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if has_pip {
        return Ok(());
    }
    setup::install(&["python3", "python3-pip"]).context("tests build handlers in Python")
}

/// Builds the runner of `tests/rust-runner` and the example of the crate it is made with, both without
/// optimization, because the suite does not measure them. Does nothing if both exist.
fn rust_runner(folder: &Path) -> Result<()> {
    let build = || {
        let mut command = cargo(&["build", "--quiet", "--target-dir"]);
        command.arg(folder).arg("--manifest-path");
        command.arg(root().join(RUST_RUNNER).join("Cargo.toml"));
        command
    };
    run(&mut build())
        .and_then(|()| run(build().args(["--package", "rrq-runner", "--example", SOCKET_RUNNER])))
        .context("tests need the crate rrq-runner from crates.io")
}

/// Installs Debian's Redis if there is none.
pub(crate) fn redis() -> Result<()> {
    if setup::is_there("redis-server") {
        return Ok(());
    }
    setup::install(&["redis-server"]).context("tests start Redis servers")
}

/// Installs Debian's Chromium, in the build without windows, if there is none.
fn chromium() -> Result<()> {
    if setup::is_there(CHROMIUM) {
        return Ok(());
    }
    setup::install(&[CHROMIUM]).context("tests look at pages in a browser")
}

/// Installs Debian's `PostgreSQL` and its pooler if there is none. Tests start servers of their own.
pub(crate) fn postgres() -> Result<()> {
    let folders = std::fs::read_dir(POSTGRES).into_iter().flatten();
    let mut programs = folders.flatten().map(|folder| folder.path().join("bin"));
    let has_server = programs.any(|programs| programs.join("initdb").exists());
    let missing: Vec<&str> = [
        ("postgresql", has_server),
        ("pgbouncer", Path::new(PGBOUNCER).exists()),
    ]
    .into_iter()
    .filter(|(_, is_there)| !is_there)
    .map(|(package, _)| package)
    .collect();
    if missing.is_empty() {
        return Ok(());
    }
    setup::install(&missing).context("tests start PostgreSQL servers and a pooler")
}

/// Installs the tools of workers written in Bash and of commands in documents, if they are missing.
pub(crate) fn shell_tools() -> Result<()> {
    let answers = |program: &str, question: &str| {
        Command::new(program)
            .arg(question)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    };
    let has_both = answers("socat", "-V") && answers("openssl", "version");
    if has_both && ["jq", "curl"].into_iter().all(setup::is_there) {
        return Ok(());
    }
    setup::install(&["socat", "openssl", "jq", "curl"]).context(
        "workers written in Bash and commands in documents use socat, openssl, jq and curl",
    )
}

/// Installs the bench's point of comparison: the example of the crate `rrq-runner`, a runner in Rust.
pub(crate) fn socket_runner() -> Result<()> {
    let folder = target_dir()
        .join("peers")
        .join(format!("rrq-runner-{RRQ_RUNNER_RELEASE}"));
    if folder.join("bin").join(SOCKET_RUNNER).exists() {
        return Ok(());
    }
    run(cargo(&["install", "--quiet", "--root"])
        .arg(&folder)
        .args(["--example", SOCKET_RUNNER, "--version", RRQ_RUNNER_RELEASE])
        .arg("rrq-runner")
        // It is built in a separate folder, which is then removed.
        .env_remove("CARGO_TARGET_DIR"))
    .context("the bench needs the crate rrq-runner")
}

/// Installs the bench's points of comparison among queues from npm.
pub(crate) fn queues() -> Result<()> {
    node(QUEUES, QUEUES_FILES, QUEUES_PROGRAMS)
}

/// Installs the packages of a lock file in the folder `files` of the repository, and copies `programs` from there.
fn node(name: &str, files: &str, programs: &[&str]) -> Result<()> {
    if !setup::is_there("node") || !setup::is_there("npm") {
        setup::install(&["nodejs", "npm"])?;
    }
    let folder = target_dir().join("peers").join(name);
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    for file in ["package.json", "package-lock.json"].iter().chain(programs) {
        let from = root().join(files).join(file);
        std::fs::copy(&from, folder.join(file))
            .with_context(|| format!("cannot copy {}", from.display()))?;
    }
    let complete = folder.join(COMPLETE);
    if complete.exists() {
        return Ok(());
    }
    eprintln!("installing {name} into {}", folder.display());
    run(Command::new("npm")
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        .args(["--loglevel", "error"])
        .current_dir(&folder))
    .with_context(|| {
        format!("{name} comes from npm; npm_config_registry may name a mirror of it")
    })?;
    std::fs::write(&complete, "delete this file to install it again\n")
        .with_context(|| format!("cannot write {}", complete.display()))
}

/// Installs the requirements `name` into a Python environment of this name below `folder`.
fn python(folder: &Path, name: &str) -> Result<()> {
    let folder = folder.join(name);
    let (complete, bin) = (folder.join(COMPLETE), folder.join("bin"));
    // An environment cannot be moved to another folder.
    if complete.exists() && setup::is_there(&bin.join("pip").to_string_lossy()) {
        return Ok(());
    }
    environment(&folder, name).with_context(|| {
        format!("tests need {name} from PyPI; PIP_INDEX_URL may name a mirror of it")
    })?;
    std::fs::write(&complete, "delete this file to install it again\n")
        .with_context(|| format!("cannot write {}", complete.display()))
}

fn environment(folder: &Path, name: &str) -> Result<()> {
    if !can_make_environments() {
        setup::install(&["python3", "python3-venv"])?;
    }
    eprintln!("installing {name} into {}", folder.display());
    run(Command::new("python3")
        .args(["-m", "venv", "--clear"])
        .arg(folder))?;
    let requirements = root().join(REQUIREMENTS).join(format!("{name}.txt"));
    run(Command::new(folder.join("bin").join("pip"))
        .args(["install", "--quiet", "--disable-pip-version-check"])
        .args(["--require-hashes", "--requirement"])
        .arg(requirements))
}

/// Debian packages what `python3 -m venv` needs separately.
fn can_make_environments() -> bool {
    Command::new("python3")
        .args(["-c", "import ensurepip, venv"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
