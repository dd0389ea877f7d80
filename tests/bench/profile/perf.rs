//! What `perf` observes of the host: its system calls, and the share of each kind of code in its CPU time.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Kinds of code by what the names of their functions contain. The first that fits counts.
const KINDS: [(&str, &[&str]); 7] = [
    ("rules", &["host_core::"]),
    ("JSON", &["serde"]),
    ("store around SQLite", &["host_store::", "rusqlite::"]),
    ("loop", &["host_dispatch::", "host_cells::"]),
    (
        "HTTP",
        &[
            "host_http::",
            "host_server::",
            "hyper",
            "axum",
            "http::",
            "httparse",
            "tower",
        ],
    ),
    ("runtime", &["tokio", "mio::", "futures"]),
    ("other Rust", &["::", "<"]),
];

/// The system calls of a process; no number if `perf` is missing or may not count them.
pub(super) struct SystemCalls(Option<Child>);

impl SystemCalls {
    pub(super) fn begin(pid: u32) -> Self {
        let mut perf = Command::new("perf");
        perf.args(["stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "-p"]);
        perf.arg(pid.to_string());
        let perf = perf.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        Self(perf.ok())
    }

    pub(super) fn end(self) -> Result<Option<f64>> {
        let Some(perf) = self.0 else {
            return Ok(None);
        };
        let text = stop(perf)?;
        let first = |line: &str| line.split(',').next()?.parse().ok();
        Ok(text.lines().find_map(first))
    }
}

/// Samples of what a process does; empty if `perf` is missing or may not sample.
pub(super) struct Samples {
    perf: Option<Child>,
    folder: TempDir,
}

impl Samples {
    pub(super) fn begin(pid: u32) -> Result<Self> {
        let folder = TempDir::new().context("cannot make a folder for samples")?;
        let mut perf = Command::new("perf");
        perf.args(["record", "-q", "-F", "999", "-p", &pid.to_string(), "-o"]);
        perf.arg(file(&folder));
        let perf = perf.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let perf = perf.ok();
        Ok(Self { perf, folder })
    }

    /// Returns the share of each kind of code.
    pub(super) fn end(self) -> Result<BTreeMap<&'static str, f64>> {
        let mut shares = BTreeMap::new();
        let Some(perf) = self.perf else {
            return Ok(shares);
        };
        stop(perf)?;
        let mut report = Command::new("perf");
        report.args(["report", "--stdio", "--no-children", "-g", "none"]);
        report.args(["--sort", "dso,sym", "-i"]);
        report.arg(file(&self.folder)).stderr(Stdio::null());
        let report = report.output().context("cannot start perf")?;
        let text = String::from_utf8_lossy(&report.stdout);
        for (kind, percent) in text.lines().filter_map(share) {
            *shares.entry(kind).or_default() += percent / 100.0;
        }
        Ok(shares)
    }
}

/// Ends `perf` as its user would, and returns its messages.
fn stop(perf: Child) -> Result<String> {
    // It may have ended, because it is not allowed to observe the process.
    let _ = kill_process(Pid::from_child(&perf), Signal::INT);
    let output = perf.wait_with_output().context("cannot wait for perf")?;
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

fn file(folder: &TempDir) -> PathBuf {
    folder.path().join("perf.data")
}

/// Reads a line such as `1.25%  host  [.] sqlite3VdbeExec`: a kind of code and how many percent it has.
fn share(line: &str) -> Option<(&'static str, f64)> {
    let (percent, rest) = line.trim().split_once("%  ")?;
    let (object, function) = rest.trim().split_once(' ')?;
    let function = function.trim();
    let kind = if function.starts_with("[k]") {
        "kernel"
    } else if object.starts_with("lib") {
        "allocations and copies"
    } else {
        let fits = |names: &[&str]| names.iter().any(|name| function.contains(name));
        let known = KINDS.iter().find(|(_, names)| fits(names));
        // What is written in C and not in a library.
        known.map_or("SQLite", |(kind, _)| kind)
    };
    Some((kind, percent.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn a_line_of_perf_has_a_kind_and_a_share() {
        for (line, expected) in [
            (
                "     3.62%  host               [.] sqlite3VdbeExec",
                Some(("SQLite", 3.62)),
            ),
            (
                "     2.17%  libc.so.6          [.] malloc",
                Some(("allocations and copies", 2.17)),
            ),
            (
                "     1.46%  [kernel.kallsyms]  [k] finish_task_switch.isra.0",
                Some(("kernel", 1.46)),
            ),
            (
                "     0.25%  host               [.] host_dispatch::dispatch_loop::DispatchLoop<P>::turn",
                Some(("loop", 0.25)),
            ),
            ("# Overhead  Shared Object", None),
            ("", None),
        ] {
            assert_eq!(share(line), expected, "{line}");
        }
    }
}
