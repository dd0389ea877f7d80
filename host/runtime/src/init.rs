//! The first process of a container, which must reap every process that has lost its parent. It starts this program
//! again and passes signals on to it, so that the host itself waits for its own children alone.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait};
use tokio::signal::unix::{SignalKind, signal};

/// The process that is first in its container.
const FIRST: Pid = Pid::INIT;

/// What ends a process by a signal has this exit code plus the signal, as in a shell.
const BY_SIGNAL: i32 = 128;

/// Runs `arguments` of this program in a child if this process is the first of a container, and returns how the child
/// ended. Returns `None` in any other process. Call it before the first thread is started.
pub fn run_in_child(arguments: impl Iterator<Item = OsString>) -> io::Result<Option<i32>> {
    if getpid() != FIRST {
        return Ok(None);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let code = runtime.block_on(async {
        let mut ended = signal(SignalKind::child())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut quit = signal(SignalKind::quit())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let mut command = Command::new("/proc/self/exe");
        // In a group of its own, it gets the signals of a terminal from this process alone, once.
        command.arg0("host").args(arguments).process_group(0);
        let child = Pid::from_child(&command.spawn()?);
        loop {
            let passed_on = tokio::select! {
                _ = ended.recv() => match reap(child) {
                    Some(status) => return io::Result::Ok(exit_code(status)),
                    None => continue,
                },
                _ = terminate.recv() => Signal::TERM,
                _ = interrupt.recv() => Signal::INT,
                _ = quit.recv() => Signal::QUIT,
                _ = hangup.recv() => Signal::HUP,
            };
            // It may have just ended.
            // The child may have ended.
            let _ = kill_process(child, passed_on);
        }
    })?;
    Ok(Some(code))
}

/// Reaps all processes that have ended. Returns how `child` ended, if it has.
fn reap(child: Pid) -> Option<WaitStatus> {
    let mut how = None;
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        if pid == child {
            how = Some(status);
        }
    }
    how
}

fn exit_code(status: WaitStatus) -> i32 {
    let signal = status.terminating_signal().unwrap_or_default();
    status.exit_status().unwrap_or(BY_SIGNAL + signal)
}
