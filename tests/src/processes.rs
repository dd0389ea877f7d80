//! Reads information about processes from `/proc`.

use std::fs::read_to_string;

use rustix::process::{Pid, Signal, kill_process};

/// Returns the resident memory of a process, in bytes.
///
/// # Panics
///
/// If the process has ended.
pub fn resident_bytes(pid: u32) -> u64 {
    let status = read_to_string(format!("/proc/{pid}/status")).expect("the process exists");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .expect("a process has a resident size");
    let kib: u64 = line
        .trim()
        .trim_end_matches(" kB")
        .trim()
        .parse()
        .expect("a number");
    kib * 1024
}

/// Returns whether a process exists and has not ended.
pub fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != 'Z' && state != 'X')
}

/// Returns the pids of the running children of `pid`, in order.
///
/// # Panics
///
/// If `/proc` cannot be read.
pub fn children(pid: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("/proc can be read");
    let mut children: Vec<u32> = processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|child| stat(*child).is_some_and(|(state, parent)| parent == pid && state != 'Z'))
        .collect();
    children.sort_unstable();
    children
}

/// Returns the cells of a host that run jobs, without those that compile or try something.
pub fn cells(host: u32) -> Vec<u32> {
    let mut cells = children(host);
    cells.retain(|child| command(*child).contains("cell run"));
    cells
}

/// Returns the broker of a host, if it runs.
pub fn broker(host: u32) -> Option<u32> {
    let mut children = children(host).into_iter();
    children.find(|child| command(*child).contains("egress"))
}

/// Kills a process, which may have ended by itself.
pub fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

/// Sends a signal to a process, which may have ended by itself.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
        let _ = kill_process(pid, signal);
    }
}

/// Which processes of a node are suspended besides its host.
#[derive(Clone, Copy)]
pub struct Parts {
    pub cells: bool,
    pub broker: bool,
}

/// Suspends a host and parts of its node. Returns what is suspended, in the order in which it wakes up.
#[must_use]
pub fn suspend(host: u32, parts: Parts) -> Vec<u32> {
    let mut asleep = Vec::new();
    if parts.cells {
        asleep.extend(cells(host));
    }
    if parts.broker {
        asleep.extend(broker(host));
    }
    asleep.push(host);
    for pid in asleep.iter().rev() {
        signal(*pid, Signal::STOP);
    }
    asleep
}

/// Lets processes continue that were suspended.
pub fn wake(asleep: &[u32]) {
    for pid in asleep {
        signal(*pid, Signal::CONT);
    }
}

/// Returns a process's state and its parent.
fn stat(pid: u32) -> Option<(char, u32)> {
    let stat = read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program is in parentheses and may contain any character.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut words = rest.split(' ');
    let state = words.next()?.chars().next()?;
    Some((state, words.next()?.parse().ok()?))
}

/// Returns the command line of a process, with spaces between arguments; empty if it has ended.
pub fn command(pid: u32) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.trim_end_matches('\0').replace('\0', " ")
}
