//! The process between this host and a program whose whole process tree must end: it starts the program, adopts
//! what the tree leaves behind, and kills all of it when the program has ended or the host is gone.
//!
//! Its standard input is a socket to the host. The host writes one of the orders below; the end of the socket is
//! the end of the host. The supervisor writes one number: the program's process id, or the error (negative) why
//! it does not run.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group,
    set_child_subreaper, set_parent_process_death_signal, wait,
};

use super::launcher::die_with;

/// Asks the program's process group to end.
pub(super) const TERMINATE: u8 = b't';

/// Kills the whole tree.
pub(super) const KILL: u8 = b'k';

/// Runs `command` until its whole tree has ended, and then ends this process as the program ended. Returns only
/// if it cannot be a supervisor.
pub fn run(command: &[OsString]) -> io::Result<()> {
    // The host's end must reach this process as an end of its input, so that the tree can be killed.
    set_parent_process_death_signal(None)?;
    set_child_subreaper(Some(getpid()))?;
    let mut host = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let started = start(command);
    let reply = match &started {
        Ok(program) => program.as_raw_nonzero().get(),
        Err(error) => -error
            .raw_os_error()
            .unwrap_or(rustix::io::Errno::IO.raw_os_error()),
    };
    // A host that is gone already ends the socket, which is obeyed below.
    let _ = host.write_all(&reply.to_ne_bytes());
    let Ok(program) = started else {
        std::process::exit(1);
    };
    std::thread::spawn(move || obey(host, program));
    end_as(await_all(program)?)
}

fn start(command: &[OsString]) -> io::Result<Pid> {
    let (name, arguments) = command
        .split_first()
        .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut command = Command::new(name);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .process_group(0);
    let supervisor = getpid();
    // SAFETY: between fork and exec only system calls are made, through rustix; nothing allocates and no lock
    // is taken.
    unsafe {
        command.pre_exec(move || die_with(supervisor));
    }
    Ok(Pid::from_child(&command.spawn()?))
}

/// Carries out the orders of the host until it is gone.
fn obey(mut host: UnixStream, program: Pid) {
    let mut order = [0];
    while let Ok(1) = host.read(&mut order)
        && order[0] != KILL
    {
        if order[0] == TERMINATE {
            // It may have ended already.
            let _ = kill_process_group(program, Signal::TERM);
        }
    }
    // Its end leads to that of all others.
    let _ = kill_process(program, Signal::KILL);
}

/// Waits until no descendant is left. Kills those that outlive the program, again after each death: each may
/// have started others. Returns how the program ended.
fn await_all(program: Pid) -> io::Result<WaitStatus> {
    let mut ended = None;
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == program => ended = Some(status),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return ended.ok_or_else(|| error.into()),
        }
        if ended.is_some() {
            for pid in descendants(getpid()) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// Returns all processes below `root`, by the parents in `/proc`.
fn descendants(root: Pid) -> Vec<Pid> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        if let Some(parent) = parent_of(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = vec![root.as_raw_nonzero().get()];
    let mut at = 0;
    while let Some(pid) = found.get(at) {
        let of = children.remove(pid).unwrap_or_default();
        found.extend(of);
        at += 1;
    }
    found
        .into_iter()
        .skip(1)
        .filter_map(Pid::from_raw)
        .collect()
}

/// Reads the parent of a process, which follows the name in parentheses and the state.
fn parent_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(1)?.parse().ok()
}

/// Ends this process in the same way, so that the host sees the program's own status.
fn end_as(status: WaitStatus) -> ! {
    if let Some(signal) = status.terminating_signal().and_then(Signal::from_named_raw) {
        let _ = rustix::process::setrlimit(
            rustix::process::Resource::Core,
            rustix::process::Rlimit {
                current: Some(0),
                maximum: Some(0),
            },
        );
        let _ = kill_process(getpid(), signal);
    }
    std::process::exit(status.exit_status().unwrap_or(1));
}

/// The host's end of the socket to a supervisor. Dropped, it has the whole tree killed.
#[derive(Debug)]
pub(super) struct Orders(UnixStream);

impl Orders {
    /// Makes both ends: that of the host, and the standard input of the supervisor.
    pub(super) fn pair() -> io::Result<(Self, Stdio)> {
        let (ours, theirs) = UnixStream::pair()?;
        Ok((Self(ours), Stdio::from(OwnedFd::from(theirs))))
    }

    /// Waits until the program has been started. Returns its process id.
    pub(super) async fn started(&self) -> io::Result<u32> {
        self.0.set_nonblocking(true)?;
        let stream = tokio::net::UnixStream::from_std(self.0.try_clone()?)?;
        let mut reply = [0; size_of::<i32>()];
        let mut stream = stream;
        tokio::io::AsyncReadExt::read_exact(&mut stream, &mut reply).await?;
        let reply = i32::from_ne_bytes(reply);
        u32::try_from(reply).map_err(|_| io::Error::from_raw_os_error(-reply))
    }

    /// Gives an order. Never waits: the socket has room for all there are.
    pub(super) fn give(&self, order: u8) {
        // Without a supervisor, the program has ended.
        let _ = (&self.0).write(&[order]);
    }
}
