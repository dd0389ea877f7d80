//! The entry points of the child processes that `host cell` runs: the cell, the compile child, and the
//! child that compiles schemas.

use std::io::{self, Write as _};
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::compile::compile;
use crate::{harden, session};

/// Runs guests for the orchestrator at the other end of the inherited socket `fd`: at most `slots` at
/// once, with `memory_mib` of memory for all of them together. Returns when the orchestrator is gone, or
/// with an error if the cell cannot work.
pub fn run(fd: RawFd, slots: u32, memory_mib: u64) -> Result<(), String> {
    restrict_cell()?;
    // SAFETY: the orchestrator passes this descriptor to us, and no other code in this process uses it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC).map_err(|error| {
        format!("cannot use file descriptor {fd} as the socket to the orchestrator: {error}")
    })?;
    session::serve(UnixStream::from(socket), slots, memory_mib << 20)
        .map_err(|error| format!("cannot run guests: {error:#}"))
}

/// Restricts this process as a cell. Call it before the first thread is started.
pub fn restrict_cell() -> Result<(), String> {
    harden::child()
        .and_then(|()| harden::cell())
        .map_err(|error| format!("cannot restrict the rights of this process: {error}"))
}

/// Compiles the component on standard input, writes the machine code to the file `output`, and writes
/// a `CompileReply` as JSON to standard output.
pub fn compile_stdin(output: &Path) -> Result<(), String> {
    let folder = output.parent().unwrap_or(Path::new("."));
    harden::child()
        .and_then(|()| harden::compiler(folder))
        .map_err(|error| format!("cannot restrict the rights of this process: {error}"))?;
    let reply = compile(&mut io::stdin().lock(), output).map_err(|error| error.to_string())?;
    let json = serde_json::to_vec(&reply).map_err(|error| error.to_string())?;
    io::stdout()
        .write_all(&json)
        .map_err(|error| format!("cannot write the reply to standard output: {error}"))
}

/// Restricts a child that compiles schemas: it opens nothing, writes to at most `memory_bytes` of memory
/// and computes for at most `cpu_seconds`.
pub fn restrict_schemas(memory_bytes: u64, cpu_seconds: u64) -> Result<(), String> {
    harden::child()
        .and_then(|()| harden::schemas(memory_bytes, cpu_seconds))
        .map_err(|error| format!("cannot restrict the rights of this process: {error}"))
}
