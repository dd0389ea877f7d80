//! What the suite of real peers needs of other projects: Debian's Redis, and each release of theirs
//! that we speak to in a folder of its own under `target/peers`.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::cargo::{cargo, root, run, target_dir};
use crate::setup;

/// The releases of RRQ on `PyPI`: the last one of the documented dialect, and the newest.
const RRQ_RELEASES: &[&str] = &["0.9.14", "0.11.1"];

/// The release of the package `redis` on `PyPI`, for a client of Hero that is none of ours.
const REDIS_RELEASE: &str = "7.1.1";

/// What reads the document of the API: a check of it, and a maker of clients. The first names the
/// folder.
const OPENAPI: &[(&str, &str)] = &[
    ("openapi-python-client", "0.29.1"),
    ("openapi-spec-validator", "0.9.0"),
];

/// The release of the crate `rrq-runner`, and its example.
const RRQ_RUNNER_RELEASE: &str = "0.11.1";
const SOCKET_RUNNER: &str = "socket_runner";

/// A runner on that crate with more handlers, and the folder it is built in.
const RUST_RUNNER: &str = "tests/rust-runner";
const RUST_RUNNER_BUILD: &str = "rust-runner";

/// Written once a folder is complete.
const COMPLETE: &str = "complete";

/// Installs what is missing; does nothing if all is there.
pub(crate) fn set_up() -> Result<()> {
    redis()?;
    shell_tools()?;
    let folder = target_dir().join("peers");
    for release in RRQ_RELEASES {
        python(&folder, &[("rrq", release)])?;
    }
    python(&folder, &[("redis", REDIS_RELEASE)])?;
    python(&folder, OPENAPI)?;
    rust_runner(&folder.join(RUST_RUNNER_BUILD))
}

/// Builds the runner of `tests/rust-runner` and the example of the crate it is made with, both
/// without optimization: the suite does not measure them. Does nothing if both are there.
fn rust_runner(folder: &Path) -> Result<()> {
    let build = || {
        let mut command = cargo(&["build", "--quiet", "--locked", "--target-dir"]);
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
    setup::install(&["redis-server"]).context("a Redis server of our own is needed")
}

/// Installs what workers written in Bash are made with, if it is missing.
pub(crate) fn shell_tools() -> Result<()> {
    let has_socat = Command::new("socat")
        .arg("-V")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if has_socat && setup::is_there("jq") {
        return Ok(());
    }
    setup::install(&["socat", "jq"]).context("workers written in Bash are made with socat and jq")
}

/// Installs what the bench measures beside: the example of the crate `rrq-runner`, a runner in Rust.
pub(crate) fn socket_runner() -> Result<()> {
    let folder = target_dir().join("peers");
    let folder = folder.join(format!("rrq-runner-{RRQ_RUNNER_RELEASE}"));
    if folder.join("bin").join(SOCKET_RUNNER).exists() {
        return Ok(());
    }
    run(cargo(&["install", "--quiet", "--root"])
        .arg(&folder)
        .args(["--example", SOCKET_RUNNER, "--version", RRQ_RUNNER_RELEASE])
        .arg("rrq-runner")
        // It is built in a folder of its own, which is then removed.
        .env_remove("CARGO_TARGET_DIR"))
    .context("the bench needs the crate rrq-runner")
}

/// Installs releases of packages into a Python environment below `folder` that has the name of the
/// first.
fn python(folder: &Path, packages: &[(&str, &str)]) -> Result<()> {
    let Some((package, release)) = packages.first() else {
        return Ok(());
    };
    let folder = folder.join(format!("{package}-{release}"));
    let (complete, bin) = (folder.join(COMPLETE), folder.join("bin"));
    // What was installed in a folder does not start from another.
    if complete.exists() && setup::is_there(&bin.join("pip").to_string_lossy()) {
        return Ok(());
    }
    environment(&folder, packages).with_context(|| {
        format!("tests need {package} {release} from PyPI; PIP_INDEX_URL may name a mirror of it")
    })?;
    std::fs::write(&complete, "delete this file to install it again\n")
        .with_context(|| format!("cannot write {}", complete.display()))
}

fn environment(folder: &Path, packages: &[(&str, &str)]) -> Result<()> {
    if !can_make_environments() {
        setup::install(&["python3", "python3-venv"])?;
    }
    let pinned = packages.iter();
    let pinned: Vec<_> = pinned
        .map(|(name, release)| format!("{name}=={release}"))
        .collect();
    eprintln!("installing {} into {}", pinned.join(", "), folder.display());
    run(Command::new("python3")
        .args(["-m", "venv", "--clear"])
        .arg(folder))?;
    run(Command::new(folder.join("bin").join("pip"))
        .args(["install", "--quiet", "--disable-pip-version-check"])
        .args(pinned))
}

/// Debian splits off what `python3 -m venv` needs.
fn can_make_environments() -> bool {
    Command::new("python3")
        .args(["-c", "import ensurepip, venv"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
