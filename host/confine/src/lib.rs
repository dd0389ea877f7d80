//! Drops the rights of a child process before it handles untrusted input. If required protection is missing,
//! the process ends, unless weak sandboxes are allowed.

mod calls;
mod lifeline;
pub mod opened;
mod own;

use std::fmt::Display;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;

use host_core::cell::Protection;
use host_core::handler::SCRATCH_MIB_MAX;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, PathBeneath, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, Signal, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit,
};
use rustix::thread::{CapabilitySet, CapabilitySets, set_no_new_privs};

use self::calls::Calls;

pub use self::lifeline::Lifeline;

/// The most open files of a cell: its own, and those that guests open in granted directories.
const FILES_MAX: u64 = 4_096;

/// The most open files of the broker: its own, sockets of runs, and connections.
const BROKER_FILES_MAX: u64 = 16_384;

/// The largest file that the compile child may write, in bytes.
const COMPILED_BYTES_MAX: u64 = 1 << 30;

/// The out-of-memory score of a child. The kernel ends the process with the highest score first; the
/// maximum is 1000.
const OOM_SCORE: &str = "900";

/// The sandbox of a child process, beyond what every child has.
#[derive(Debug, Default)]
pub struct Confinement {
    /// The user to switch to. Only for a child of root.
    pub user: Option<u32>,
    /// Whether the child was started in namespaces of its own.
    pub is_isolated: bool,
    /// The open directories below which a cell may read, if a run brings one of their directories.
    pub roots: Vec<OwnedFd>,
    /// Whether to run even without required protection.
    pub allow_weak: bool,
}

/// Prepares any child process: it ends with its parent, ignores signals, writes no core dump, and aborts
/// on a panic, so that it never continues in a bad state.
pub fn child() -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    rustix::thread::set_name(c"host-cell")?;
    ignore_signals();
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

/// Ignores all signals that would end this process, except those that report a fault of its own or a limit that it
/// has reached. Terminals and service managers send signals to all processes. The host decides when its children
/// end, because running jobs end first.
fn ignore_signals() {
    let ignored = [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGALRM,
        libc::SIGTERM,
        libc::SIGSTKFLT,
        libc::SIGVTALRM,
        libc::SIGPROF,
        libc::SIGIO,
        libc::SIGPWR,
    ];
    for signal in ignored
        .into_iter()
        .chain(libc::SIGRTMIN()..=libc::SIGRTMAX())
    {
        // SAFETY: ignoring a signal installs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Writes a line to standard error, which the host logs. If the host no longer reads it, the line is lost.
pub fn report(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Restricts a cell. Call it before the first thread is started, and after the last path is opened.
pub fn cell(confinement: Confinement) -> io::Result<Protection> {
    limit(Resource::Nofile, FILES_MAX)?;
    // The only files that a cell writes are those of scratch directories, which the host opens.
    limit(Resource::Fsize, SCRATCH_MIB_MAX << 20)?;
    // SAFETY: ignoring a signal installs no handler. A write beyond the limit then fails.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let calls = if confinement.roots.is_empty() {
        Calls::Cell
    } else {
        Calls::CellThatReads
    };
    confine(confinement, calls)
}

/// Restricts the compile child, which writes only to one open file.
pub fn compiler(
    confinement: Confinement,
    memory_bytes: u64,
    cpu_seconds: u64,
) -> io::Result<Protection> {
    limit(Resource::As, memory_bytes)?;
    limit(Resource::Cpu, cpu_seconds)?;
    limit(Resource::Fsize, COMPILED_BYTES_MAX)?;
    confine(confinement, Calls::Compiler)
}

/// Restricts the schema child.
pub fn schemas(
    confinement: Confinement,
    memory_bytes: u64,
    cpu_seconds: u64,
) -> io::Result<Protection> {
    limit(Resource::Data, memory_bytes)?;
    limit(Resource::Cpu, cpu_seconds)?;
    limit(Resource::Fsize, 0)?;
    confine(confinement, Calls::Schemas)
}

/// Restricts the broker, which opens no path but may connect to any address.
pub fn broker(confinement: Confinement) -> io::Result<Protection> {
    limit(Resource::Nofile, BROKER_FILES_MAX)?;
    limit(Resource::Fsize, 0)?;
    confine(confinement, Calls::Broker)
}

fn confine(confinement: Confinement, calls: Calls) -> io::Result<Protection> {
    let Confinement {
        user,
        is_isolated,
        roots,
        allow_weak,
    } = confinement;
    let (mut missing, mut reduced) = (Vec::new(), Vec::new());
    let mut lacks = |what: &str, cause: &dyn std::fmt::Display| {
        reduced.push(format!("{what} ({cause})"));
    };
    let has_own_root = if is_isolated {
        own::empty_root()
            .inspect_err(|error| lacks("no file system of its own", error))
            .is_ok()
    } else {
        lacks(
            "no namespaces of its own",
            &"the kernel or the container does not allow them",
        );
        false
    };
    if let Some(user) = user
        && let Err(error) = own::become_user(user)
    {
        missing.push(format!(
            "cannot switch from root to user {user} ({error}): give the host CAP_SETUID and CAP_SETGID, \
             or start it as another user"
        ));
    }
    // Changing the user clears the parent-death signal.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    set_no_new_privs(true)?;
    let landlock = no_paths(roots, calls).map_err(io::Error::other)?;
    match (landlock, has_own_root) {
        (RulesetStatus::FullyEnforced, _) => {}
        (RulesetStatus::PartiallyEnforced, _) => {
            lacks("part of Landlock", &"the kernel is older than Linux 6.12");
        }
        (RulesetStatus::NotEnforced, true) => {
            lacks("no Landlock", &"the kernel does not have it");
        }
        (RulesetStatus::NotEnforced, false) => missing.push(
            "neither Landlock (Linux 5.13) nor a file system of its own (user namespaces)"
                .to_owned(),
        ),
    }
    if !missing.is_empty() && !allow_weak {
        let missing = missing.join(", ");
        return Err(io::Error::other(format!(
            "this system does not fully sandbox it: {missing}; cells.allow_weak allows that"
        )));
    }
    drop_capabilities()?;
    calls.allow()?;
    Ok(Protection { missing, reduced })
}

/// Drops the right to open any path, except to read below `roots`, and to use TCP, except that the broker
/// connects. Returns how much of that the kernel
/// enforces.
fn no_paths(
    roots: Vec<OwnedFd>,
    calls: Calls,
) -> Result<RulesetStatus, Box<dyn std::error::Error + Send + Sync>> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let rules = roots.into_iter().map(|root| {
        let rule = PathBeneath::new(root, read);
        Ok::<_, landlock::RulesetError>(rule)
    });
    let network = if calls == Calls::Broker {
        AccessNet::BindTcp.into()
    } else {
        AccessNet::from_all(ABI::V5)
    };
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V5))?
        .handle_access(network)?
        .scope(Scope::AbstractUnixSocket | Scope::Signal)?
        .create()?
        .add_rules(rules)?
        .restrict_self()?;
    Ok(status.ruleset)
}

/// Drops root's privileges over other users.
fn drop_capabilities() -> io::Result<()> {
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    Ok(rustix::thread::set_capabilities(None, none)?)
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
