//! Runs cargo and other programs in the workspace, and says which one failed.

use std::io::{IsTerminal, Write, stdout};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

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

/// How long tests may run where no one watches them: a test that hangs is named by its test program after a
/// minute, and must not hang whatever waits for the tests. On one core that others use too, half an hour is too little.
const TIME_LIMIT: Duration = Duration::from_mins(75);

/// Runs a command to its end, with its output passed through.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    let status = command
        .status()
        .with_context(|| format!("cannot start `{shown}`"))?;
    check(status, &shown)
}

/// Runs tests to their end, within [`TIME_LIMIT`], with their output passed through.
pub(crate) fn run_tests(command: &mut Command) -> Result<()> {
    finish(command, |mut child| child.wait())
}

/// Runs tests to their end, within [`TIME_LIMIT`], and prints their output then.
pub(crate) fn run_tests_captured(command: &mut Command) -> Result<()> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command, |child| {
        let output = child.wait_with_output()?;
        let mut terminal = std::io::stderr().lock();
        terminal.write_all(&output.stdout)?;
        terminal.write_all(&output.stderr)?;
        Ok(output.status)
    })
}

/// Starts a command and waits for its end. Without a terminal the command is killed at [`TIME_LIMIT`] with all
/// that it started; at a terminal the user can press Ctrl-C, which reaches only processes of the same group.
fn finish(
    command: &mut Command,
    wait: impl FnOnce(Child) -> std::io::Result<ExitStatus>,
) -> Result<()> {
    let shown = show(command);
    let is_watched = stdout().is_terminal();
    if !is_watched {
        command.process_group(0);
    }
    let child = command
        .spawn()
        .with_context(|| format!("cannot start `{shown}`"))?;
    let group = Pid::from_child(&child);
    let (ended, has_ended) = channel::<()>();
    let killer = thread::spawn(move || {
        let is_late =
            !is_watched && has_ended.recv_timeout(TIME_LIMIT) == Err(RecvTimeoutError::Timeout);
        if is_late {
            let _ = kill_process_group(group, Signal::KILL);
        }
        is_late
    });
    let status = wait(child);
    drop(ended);
    if killer.join().unwrap_or_default() {
        let minutes = TIME_LIMIT.as_secs() / 60;
        bail!("`{shown}` did not end within {minutes} minutes and was killed");
    }
    check(
        status.with_context(|| format!("cannot wait for `{shown}`"))?,
        &shown,
    )
}

fn check(status: ExitStatus, shown: &str) -> Result<()> {
    if !status.success() {
        bail!("`{shown}` failed ({status})");
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
