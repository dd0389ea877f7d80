//! Finds the programs of other projects that `cargo xtask` installs.

use std::path::PathBuf;

use crate::guests::built;

/// Returns the folder of one release of RRQ: a Python environment with its orchestrator.
///
/// # Panics
///
/// If it has not been installed. The message names the command that installs it.
pub fn rrq(release: &str) -> PathBuf {
    installed(&format!("rrq-{release}"), "test peers")
}

/// Returns a Python interpreter with the package `redis`.
///
/// # Panics
///
/// If it has not been installed. The message names the command that installs it.
pub fn python_redis() -> PathBuf {
    installed("redis-7.1.1", "test peers").join("bin/python")
}

/// Returns the folder of the programs of moto, which has services of AWS, and of Python with the package `boto3`.
///
/// # Panics
///
/// If it has not been installed. The message names the command that installs it.
pub fn moto() -> PathBuf {
    installed("moto-5.2.1", "test peers").join("bin")
}

/// Returns the folder of the programs mypy, which checks types in Python, and `openapi-spec-validator`.
///
/// # Panics
///
/// If they have not been installed. The message names the command that installs them.
pub fn mypy() -> PathBuf {
    installed("mypy-2.4.1", "test peers").join("bin")
}

/// Returns the folder of a Python interpreter with the package `build`, which makes packages.
///
/// # Panics
///
/// If it has not been installed. The message names the command that installs it.
pub fn build() -> PathBuf {
    installed("build-1.6.1", "test peers").join("bin")
}

/// Returns the folder of the compiler of TypeScript.
///
/// # Panics
///
/// If it has not been installed. The message names the command that installs it.
pub fn typescript() -> PathBuf {
    installed("typescript-5.9.3", "test peers")
}

/// Returns the folder of the package axe-core, which checks pages in a browser.
///
/// # Panics
///
/// If it has not been installed. The message names the command that installs it.
pub fn axe() -> PathBuf {
    installed("axe-core-4.14.1", "test peers")
}

/// Returns the folder of graphile-worker and `BullMQ`, and of the bench's loads for them.
///
/// # Panics
///
/// If it has not been installed. The message names the command that installs it.
pub fn queues() -> PathBuf {
    installed("bullmq-5.81.5-graphile-worker-0.18.0", "bench peers")
}

/// Returns the example runner of the crate `rrq-runner`, which has the handler `echo`.
///
/// # Panics
///
/// If it has not been installed. The message names the command that installs it.
pub fn socket_runner() -> PathBuf {
    installed("rrq-runner-0.11.1/bin/socket_runner", "bench rrq")
}

/// Returns the same example runner, built without optimization, for the suite with real peers.
///
/// # Panics
///
/// If it has not been built. The message names the command that builds it.
pub fn example_runner() -> PathBuf {
    installed("rust-runner/debug/examples/socket_runner", "test peers")
}

/// Returns the runner in `tests/rust-runner`.
///
/// # Panics
///
/// If it has not been built. The message names the command that builds it.
pub fn rust_runner() -> PathBuf {
    installed("rust-runner/debug/rust-runner", "test peers")
}

fn installed(path: &str, command: &str) -> PathBuf {
    let path = built("peers").join(path);
    let is_whole = path.is_file() || path.join("complete").exists();
    assert!(
        is_whole,
        "{} is missing: run `cargo xtask {command}` first",
        path.display()
    );
    path
}
