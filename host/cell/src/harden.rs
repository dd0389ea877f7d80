//! Takes rights from a child process before it handles untrusted input. A protection that the kernel
//! does not support is skipped, and `host doctor` reports it. If a supported one fails, the process ends.

mod calls;

use std::io;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, PathBeneath, PathFd,
    Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, Scope,
};
use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};

/// The most open files of a cell: its own, and those that guests open in granted directories.
const FILES_MAX: u64 = 4_096;

/// The address space of the compile child, in bytes.
const COMPILE_MEMORY_BYTES: u64 = 1 << 30;

/// The CPU time of the compile child, in seconds.
const COMPILE_CPU_SECONDS: u64 = 120;

/// The out-of-memory score of a child. The kernel ends the process with the highest score first; the
/// maximum is 1000.
const OOM_SCORE: &str = "900";

/// Prepares any child process: it ends with its parent, ignores signals that ask it to stop, writes no
/// core dump, and aborts on a panic, so that it never continues in a wrong state.
pub(crate) fn child() -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    rustix::thread::set_name(c"host-cell")?;
    // Terminals and service managers send these signals to all processes. The host decides when its
    // children end, because running jobs end first.
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: ignoring a signal installs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // If memory runs out, the kernel ends this process before the host. A guest cannot lower the score
    // again, because that needs a privilege.
    std::fs::write("/proc/self/oom_score_adj", OOM_SCORE)?;
    limit(Resource::Core, 0)?;
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
    Ok(())
}

/// Restricts a cell. Call it before the first thread is started.
pub(crate) fn cell() -> io::Result<()> {
    limit(Resource::Nofile, FILES_MAX)?;
    // A cell writes to no file, not even to one that is open.
    limit(Resource::Fsize, 0)?;
    drop_capabilities()?;
    read_only()?;
    calls::allow_cell()
}

/// Restricts the compile child, which may read and write only below `folder`.
pub(crate) fn compiler(folder: &std::path::Path) -> io::Result<()> {
    limit(Resource::As, COMPILE_MEMORY_BYTES)?;
    limit(Resource::Cpu, COMPILE_CPU_SECONDS)?;
    let ruleset = ruleset().and_then(|ruleset| {
        ruleset
            .create()?
            .add_rule(PathBeneath::new(
                PathFd::new(folder)?,
                AccessFs::from_all(ABI::V3) & !AccessFs::Execute,
            ))?
            .restrict_self()
            .map_err(Into::into)
    });
    ruleset.map_err(io::Error::other)?;
    drop_capabilities()?;
    calls::allow_compiler()
}

/// Restricts the child that compiles schemas. It opens no file.
pub(crate) fn schemas(memory_bytes: u64, cpu_seconds: u64) -> io::Result<()> {
    limit(Resource::Data, memory_bytes)?;
    limit(Resource::Cpu, cpu_seconds)?;
    let restricted =
        ruleset().and_then(|ruleset| ruleset.create()?.restrict_self().map_err(Into::into));
    restricted.map(drop).map_err(io::Error::other)?;
    drop_capabilities()?;
    calls::allow_schemas()
}

/// Leaves this process only the right to read files. Reading is not restricted to granted directories,
/// because they are known only when a run starts.
fn read_only() -> io::Result<()> {
    let restricted = ruleset().and_then(|ruleset| {
        ruleset
            .create()?
            .add_rule(PathBeneath::new(
                PathFd::new("/")?,
                AccessFs::ReadFile | AccessFs::ReadDir,
            ))?
            .restrict_self()
            .map_err(Into::into)
    });
    restricted.map(drop).map_err(io::Error::other)
}

/// Gives up what root may do beyond other users.
fn drop_capabilities() -> io::Result<()> {
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    Ok(rustix::thread::set_capabilities(None, none)?)
}

fn ruleset() -> Result<Ruleset, Box<dyn std::error::Error + Send + Sync>> {
    Ok(Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V5))?
        .handle_access(AccessNet::from_all(ABI::V5))?
        .scope(Scope::AbstractUnixSocket | Scope::Signal)?)
}

fn limit(resource: Resource, value: u64) -> io::Result<()> {
    let old = rustix::process::getrlimit(resource);
    let value = old.maximum.map_or(value, |maximum| maximum.min(value));
    let new = Rlimit {
        current: Some(value),
        maximum: Some(value),
    };
    setrlimit(resource, new)?;
    Ok(())
}
