//! The two child processes, from their first instruction: what `host cell` does.

use std::io::{self, Write as _};
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::compile::compile;
use crate::{harden, session};

/// Runs guests for the orchestrator at the other end of the inherited socket `fd`, `slots` at once
/// with `memory_mib` for all of them. Returns when the orchestrator is gone, or with what keeps the cell from working.
pub fn run(fd: RawFd, slots: u32, memory_mib: u64) -> Result<(), String> {
    harden::child()
        .and_then(|()| harden::cell())
        .map_err(|error| format!("cannot give up rights: {error}"))?;
    // SAFETY: the orchestrator hands this one descriptor over, and nothing else here knows it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)
        .map_err(|error| format!("cannot use file descriptor {fd} as the socket: {error}"))?;
    session::serve(UnixStream::from(socket), slots, memory_mib << 20)
        .map_err(|error| format!("cannot run guests: {error:#}"))
}

/// Compiles the component on standard input to the file `output` and answers on standard output
/// with a `CompileReply` as JSON.
pub fn compile_stdin(output: &Path) -> Result<(), String> {
    let folder = output.parent().unwrap_or(Path::new("."));
    harden::child()
        .and_then(|()| harden::compiler(folder))
        .map_err(|error| format!("cannot give up rights: {error}"))?;
    let reply = compile(&mut io::stdin().lock(), output).map_err(|error| error.to_string())?;
    let json = serde_json::to_vec(&reply).map_err(|error| error.to_string())?;
    io::stdout()
        .write_all(&json)
        .map_err(|error| format!("cannot answer: {error}"))
}
