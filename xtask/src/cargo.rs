//! Runs cargo and other programs in the workspace, and says which one failed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Returns the root of the workspace.
pub(crate) fn root() -> PathBuf {
    let manifest_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest_dir.parent().unwrap_or(manifest_dir).to_owned()
}

/// Returns where cargo builds: `CARGO_TARGET_DIR` or `target`.
pub(crate) fn target_dir() -> PathBuf {
    let chosen = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    root().join(chosen.unwrap_or_else(|| "target".into()))
}

/// Makes a cargo command that starts in the root of the workspace. It never changes `Cargo.lock`.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(root());
    if let Some((verb, rest)) = args.split_first() {
        command.arg(verb);
        // Valid for every package.
        if *verb != "fmt" {
            command.arg("--locked");
        }
        command.args(rest);
    }
    command
}

/// Runs a command to its end, with its output passed through.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    let status = command
        .status()
        .with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

/// Runs a command to its end, and prints its output then.
pub(crate) fn run_captured(command: &mut Command) -> Result<()> {
    let shown = show(command);
    let output = command
        .output()
        .with_context(|| format!("cannot start `{shown}`"))?;
    let mut terminal = std::io::stderr().lock();
    terminal.write_all(&output.stdout)?;
    terminal.write_all(&output.stderr)?;
    drop(terminal);
    if !output.status.success() {
        bail!("`{shown}` failed ({})", output.status);
    }
    Ok(())
}

/// Runs a command and returns what it prints on standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let output = command
        .output()
        .with_context(|| format!("cannot start `{shown}`"))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("`{shown}` failed ({}): {}", output.status, stderr.trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{shown}` printed invalid UTF-8"))
}

/// Returns a command as one would type it, with the variables that it sets.
pub(crate) fn show(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let variables = command.get_envs().filter_map(|(key, value)| {
        let (key, value) = (key.to_string_lossy(), value?.to_string_lossy());
        key.starts_with("HOST_").then(|| format!("{key}={value}"))
    });
    let words = std::iter::once(name).chain(command.get_args());
    variables
        .chain(words.map(|word| word.to_string_lossy().into_owned()))
        .collect::<Vec<_>>()
        .join(" ")
}
