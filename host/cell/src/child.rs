//! The entry points of the child processes that `host cell` runs: the cell, the compile child, the schema
//! child, and the one that reports how children are protected.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use host_confine as harden;
use host_core::cell::{Probe, Protection};

use crate::compile::compile;
use crate::trial::Trial;
use crate::{engine, session};

pub use host_confine::Confinement;

/// Takes over a descriptor that the host passes to this process.
///
/// # Safety
///
/// No other code in this process may use the descriptor.
pub unsafe fn inherited(fd: RawFd) -> Result<OwnedFd, String> {
    // SAFETY: see above.
    let inherited = unsafe { OwnedFd::from_raw_fd(fd) };
    rustix::io::fcntl_setfd(&inherited, rustix::io::FdFlags::CLOEXEC)
        .map_err(|error| format!("cannot use the inherited file descriptor {fd}: {error}"))?;
    Ok(inherited)
}

/// Runs guests for the host at the other end of `socket`: at most `slots` concurrently, with `memory_mib` of
/// memory for all of them together. `quick` guests were compiled so. Returns when the host is gone, or with an error if the cell cannot work.
/// The process ends when the timer `lifeline` runs out.
pub fn run(
    socket: OwnedFd,
    lifeline: Option<OwnedFd>,
    slots: u32,
    memory_mib: u64,
    quick: bool,
    confinement: Confinement,
) -> Result<(), String> {
    let failed = |error: wasmtime::Error| format!("cannot run guests: {error:#}");
    harden::child().map_err(unrestricted)?;
    // This opens a file of the kernel, so it comes before the restrictions.
    let engine = engine::pooled(slots, quick).map_err(failed)?;
    harden::cell(confinement).map_err(unrestricted)?;
    let socket = UnixStream::from(socket);
    session::serve(socket, lifeline, engine, slots, memory_mib << 20).map_err(failed)
}

/// Restricts this process as a cell. Call it before the first thread is started.
pub fn restrict_cell(confinement: Confinement) -> Result<Protection, String> {
    harden::child()
        .and_then(|()| harden::cell(confinement))
        .map_err(unrestricted)
}

/// Compiles the component on standard input, writes the machine code to the open file `output`, and
/// writes a `CompileReply` as JSON to standard output. It has an address space of `memory_bytes` and computes
/// for at most `cpu_seconds`. `quick` takes less time for slower code.
pub fn compile_stdin(
    quick: bool,
    output: OwnedFd,
    memory_bytes: u64,
    cpu_seconds: u64,
    confinement: Confinement,
) -> Result<(), String> {
    restrict_compiler(memory_bytes, cpu_seconds, confinement)?;
    let mut output = File::from(output);
    let reply =
        compile(quick, &mut io::stdin().lock(), &mut output).map_err(|error| error.to_string())?;
    let json = serde_json::to_vec(&reply).map_err(|error| error.to_string())?;
    io::stdout()
        .write_all(&json)
        .map_err(|error| format!("cannot write the reply to standard output: {error}"))
}

/// Restricts the compile child: it opens nothing, has an address space of `memory_bytes` and computes for at
/// most `cpu_seconds`.
pub fn restrict_compiler(
    memory_bytes: u64,
    cpu_seconds: u64,
    confinement: Confinement,
) -> Result<(), String> {
    harden::child()
        .and_then(|()| harden::compiler(confinement, memory_bytes, cpu_seconds))
        .map(drop)
        .map_err(unrestricted)
}

/// Restricts the schema child: it opens nothing, writes to at most `memory_bytes` of memory and computes for
/// at most `cpu_seconds`.
pub fn restrict_schemas(
    memory_bytes: u64,
    cpu_seconds: u64,
    confinement: Confinement,
) -> Result<(), String> {
    harden::child()
        .and_then(|()| harden::schemas(confinement, memory_bytes, cpu_seconds))
        .map(drop)
        .map_err(unrestricted)
}

/// Restricts this process as a cell with `slots` slots, runs machine code in it, which it writes to the open file `code`,
/// and writes a [`Probe`] as JSON to standard output.
pub fn probe(code: OwnedFd, slots: u32, confinement: Confinement) -> Result<(), String> {
    harden::child().map_err(unrestricted)?;
    let trial = Trial::prepare(code.into(), slots);
    let protection = harden::cell(Confinement {
        allow_weak: true,
        ..confinement
    });
    let failure = trial.and_then(Trial::run).err();
    let probe = Probe {
        protection: protection.map_err(unrestricted)?,
        failure: failure.map(|error| format!("cannot {error:#}")),
    };
    let json = serde_json::to_vec(&probe).map_err(|error| error.to_string())?;
    io::stdout()
        .write_all(&json)
        .map_err(|error| format!("cannot write to standard output: {error}"))
}

#[expect(clippy::needless_pass_by_value, reason = "it is the end of the error")]
fn unrestricted(error: io::Error) -> String {
    format!("cannot restrict the rights of this process: {error}")
}
