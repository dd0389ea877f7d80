//! Takes rights from a child process before it handles untrusted input. A protection that the kernel
//! does not support is skipped, and `host doctor` reports it. If a supported one fails, the process ends.

use std::collections::BTreeMap;
use std::io;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, PathBeneath, PathFd,
    Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, Scope,
};
use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

/// The most open files of a cell: its own, and those that guests open in granted directories.
const FILES_MAX: u64 = 4_096;

/// The address space of the compile child, in bytes.
const COMPILE_MEMORY_BYTES: u64 = 1 << 30;

/// The CPU time of the compile child, in seconds.
const COMPILE_CPU_SECONDS: u64 = 120;

/// The out-of-memory score of a child. The kernel ends the process with the highest score first; the
/// maximum is 1000.
const OOM_SCORE: &str = "900";

/// System calls that no child needs but an escaped guest could use: to start programs, reach other
/// processes or the network, or change the kernel.
const REFUSED_CALLS: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_open_by_handle_at,
    libc::SYS_personality,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
];

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
    read_only()?;
    refuse_calls()
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
    refuse_calls()
}

/// Restricts the child that compiles schemas. It opens no file.
pub(crate) fn schemas(memory_bytes: u64, cpu_seconds: u64) -> io::Result<()> {
    limit(Resource::Data, memory_bytes)?;
    limit(Resource::Cpu, cpu_seconds)?;
    let restricted =
        ruleset().and_then(|ruleset| ruleset.create()?.restrict_self().map_err(Into::into));
    restricted.map(drop).map_err(io::Error::other)?;
    refuse_calls()
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

fn ruleset() -> Result<Ruleset, Box<dyn std::error::Error + Send + Sync>> {
    Ok(Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V5))?
        .handle_access(AccessNet::from_all(ABI::V5))?
        .scope(Scope::AbstractUnixSocket | Scope::Signal)?)
}

fn refuse_calls() -> io::Result<()> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = REFUSED_CALLS
        .iter()
        .map(|call| (*call, Vec::new()))
        .collect();
    // `clone` with this flag makes a thread, without it a process.
    let thread = u64::from(libc::CLONE_THREAD.cast_unsigned());
    let process = SeccompCondition::new(
        0,
        SeccompCmpArgLen::Qword,
        SeccompCmpOp::MaskedEq(thread),
        0,
    )
    .and_then(|condition| SeccompRule::new(vec![condition]))
    .map_err(io::Error::other)?;
    rules.insert(libc::SYS_clone, vec![process]);
    install(rules, libc::EPERM)?;
    // The flags of `clone3` are behind a pointer, which a filter cannot follow. If it fails with ENOSYS,
    // libc uses `clone`.
    install(
        BTreeMap::from([(libc::SYS_clone3, Vec::new())]),
        libc::ENOSYS,
    )
}

fn install(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: i32) -> io::Result<()> {
    let arch = std::env::consts::ARCH
        .try_into()
        .map_err(io::Error::other)?;
    let program: BpfProgram = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(errno.cast_unsigned()),
        arch,
    )
    .and_then(TryInto::try_into)
    .map_err(io::Error::other)?;
    seccompiler::apply_filter(&program).map_err(io::Error::other)
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
