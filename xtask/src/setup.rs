//! Checks what a build needs: the compiler, its tools and a C compiler. Installs what it can, names the rest.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::cargo::{output, run};

/// The oldest compiler that builds the workspace, as in the workspace's `rust-version`.
const RUST_MINOR_MIN: u32 = 95;

/// Checks the compiler and the C compiler; installs `rustfmt` and `clippy` if they are missing.
pub(crate) fn toolchain() -> Result<()> {
    let version = output(Command::new("rustc").arg("--version"))
        .context("Rust is needed; install it with rustup")?;
    if rust_minor(&version).is_none_or(|minor| minor < RUST_MINOR_MIN) {
        bail!(
            "Rust 1.{RUST_MINOR_MIN} or later is needed, found {}; run `rustup update stable`",
            version.trim()
        );
    }
    if !is_there("cc") {
        install(&["build-essential"]).context("a C compiler is needed to build SQLite")?;
    }
    for (tool, component) in [("cargo-fmt", "rustfmt"), ("cargo-clippy", "clippy")] {
        if !is_there(tool) {
            run(Command::new("rustup").args(["component", "add", component]))
                .with_context(|| format!("{component} is needed for `cargo xtask test`"))?;
        }
    }
    Ok(())
}

/// Returns whether `program` starts and answers `--version`.
pub(crate) fn is_there(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Installs Debian packages if this is Debian and the user is root; names the command if not.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    let by_hand = format!(
        "apt-get update && apt-get install -y --no-install-recommends {}",
        packages.join(" ")
    );
    let is_root = output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    if !is_there("apt-get") {
        bail!(
            "install the equivalent of these Debian packages: {}",
            packages.join(" ")
        );
    }
    if !is_root {
        bail!("run as root: {by_hand}");
    }
    eprintln!("installing {}", packages.join(" "));
    run(Command::new("apt-get").arg("update").stdout(Stdio::null()))?;
    run(Command::new("apt-get")
        .args(["install", "-y", "--no-install-recommends"])
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdout(Stdio::null()))
    .with_context(|| format!("cannot install packages; try by hand: {by_hand}"))
}

/// Reads the minor version from `rustc 1.95.0 (…)`.
fn rust_minor(version: &str) -> Option<u32> {
    let number = version.strip_prefix("rustc 1.")?;
    number.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::rust_minor;

    #[test]
    fn the_minor_version_is_read() {
        assert_eq!(
            rust_minor("rustc 1.95.0 (59807616e 2026-04-14)\n"),
            Some(95)
        );
        assert_eq!(rust_minor("rustc 1.96.0-nightly"), Some(96));
        assert_eq!(rust_minor("something else"), None);
    }

    #[test]
    fn the_oldest_compiler_is_the_workspaces() {
        let manifest = std::fs::read_to_string(crate::cargo::root().join("Cargo.toml")).unwrap();
        let line = format!("rust-version = \"1.{}\"", super::RUST_MINOR_MIN);
        assert!(manifest.lines().any(|l| l == line), "{line}");
    }
}
