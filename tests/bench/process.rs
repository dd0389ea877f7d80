//! Memory and CPU time of the host's processes.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use host_tests::Server;

use crate::report::Report;

const MIB: f64 = 1024.0;

/// Returns a line of `/proc/<pid>/status` in MiB.
pub(crate) fn status_mib(pid: u32, name: &str) -> Result<f64> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let kib: f64 = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok())
        .with_context(|| format!("{path} has no {name}"))?;
    Ok(kib / MIB)
}

/// Returns the CPU time of all threads of a process, in microseconds.
pub(crate) fn cpu_us(pid: u32) -> Result<f64> {
    let folder = format!("/proc/{pid}/task");
    let threads = std::fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))?;
    let mut cpu_ns = 0.0;
    for thread in threads {
        // A thread may end between two reads.
        let text = std::fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
        let ns = text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok());
        cpu_ns += ns.unwrap_or_default();
    }
    Ok(cpu_ns / 1e3)
}

/// Returns the cells of a host: its children.
pub(crate) fn cells(host: u32) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").context("cannot read /proc")? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let Some(pid) = name.and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if parent(&path) == Some(host) {
            found.push(pid);
        }
    }
    Ok(found)
}

/// Reads the parent's id, which follows the name in parentheses and the state.
fn parent(process: &Path) -> Option<u32> {
    let stat = std::fs::read_to_string(process.join("stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(1)?.parse().ok()
}

/// Returns the CPU time of all cells of a host, in microseconds.
pub(crate) fn cells_cpu_us(host: u32) -> Result<f64> {
    Ok(cells(host)?
        .into_iter()
        .filter_map(|cell| cpu_us(cell).ok())
        .sum())
}

/// Adds the peak memory of a host and its cells after `when`.
pub(crate) fn memory(server: &Server, when: &str, report: &mut Report) -> Result<()> {
    let host = status_mib(server.pid(), "VmHWM")?;
    let name = format!("peak memory {when}, orchestrator");
    report.push(&name, "MiB", host);
    let cells = cells(server.pid())?;
    ensure!(!cells.is_empty(), "the host has no cells");
    let sizes = cells
        .iter()
        .map(|cell| status_mib(*cell, "VmHWM"))
        .collect::<Result<Vec<f64>>>()?;
    let name = format!("peak memory {when}, {} cells", sizes.len());
    report.push(&name, "MiB", sizes.iter().sum());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{cells, cpu_us, status_mib};

    #[test]
    fn a_process_knows_itself() {
        let me = std::process::id();
        assert!(status_mib(me, "VmRSS").unwrap() > 0.1);
        assert!(status_mib(me, "VmNothing").is_err());
        assert!(cpu_us(me).unwrap() > 0.0);
        let parent = std::os::unix::process::parent_id();
        assert!(cells(parent).unwrap().contains(&me));
    }
}
