//! The system calls that a child process may make. The list has what children call in the tests, and what the
//! same functions call in rarer cases. Any other call ends the process.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

/// Memory, threads, time, signals of the process itself, and descriptors that are already open.
const BASE: &[libc::c_long] = &[
    libc::SYS_brk,
    libc::SYS_clone3,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_ppoll,
    libc::SYS_pread64,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_write,
    libc::SYS_writev,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
];

/// Opening and examining paths. Landlock allows that only below granted directories; elsewhere a handler
/// answers.
const PATHS: &[libc::c_long] = &[
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_readlinkat,
    libc::SYS_statx,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
];

/// Reading open directories and files.
const READ: &[libc::c_long] = &[libc::SYS_fadvise64, libc::SYS_getdents64];

/// The socket to the orchestrator, the time until which it may act, and the event loop.
const TALK: &[libc::c_long] = &[
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_shutdown,
    libc::SYS_timerfd_gettime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
];

/// Writing the open file of a scratch directory.
const WRITE: &[libc::c_long] = &[libc::SYS_pwrite64];

/// Keeping an open file.
const KEEP: &[libc::c_long] = &[libc::SYS_fdatasync, libc::SYS_fsync];

/// Connections to other machines, and datagrams to DNS servers.
const CONNECT: &[libc::c_long] = &[
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
];

/// `ioctl` with these requests: non-blocking mode, and which pages a guest has written to.
const IOCTLS: [u64; 2] = [0x5421, 0xc060_6610];

/// `prctl` with these requests: names of threads and of memory, and the auxiliary vector.
const PRCTLS: [u64; 3] = [15, 0x5356_4d41, 0x4155_5856];

/// `fcntl` with these requests: flags of a descriptor and of a file, and a copy of a descriptor. Others tell
/// the kernel to signal a process.
const FCNTLS: [i32; 5] = [
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_SETFL,
    libc::F_DUPFD_CLOEXEC,
];

/// The domains of the broker's sockets.
const INTERNET: [u64; 2] = [
    libc::AF_INET.cast_unsigned() as u64,
    libc::AF_INET6.cast_unsigned() as u64,
];

/// The only domain of `socketpair`.
const UNIX: u64 = 1;

/// The bits of `socketpair`'s type that are not flags.
const SOCKET_TYPE: u64 = 0xf;

/// The only type of `socketpair`. A pair of datagrams could send to any socket that has a path.
const STREAM: u64 = libc::SOCK_STREAM.cast_unsigned() as u64;

/// The highest clock that is not the processor time of one process or thread.
const CLOCK_MAX: u64 = libc::CLOCK_TAI.cast_unsigned() as u64;

/// The working directory, where a call takes a directory.
const HERE: u64 = libc::AT_FDCWD.cast_unsigned() as u64;

/// Which calls a child needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Calls {
    Cell,
    /// A cell whose guests may be granted directories.
    CellThatReads,
    Compiler,
    Schemas,
    Broker,
}

impl Calls {
    /// Leaves this process only these calls.
    pub(super) fn allow(self) -> io::Result<()> {
        super::opened::answer()?;
        match self {
            Self::Cell => allow(&[BASE, PATHS, TALK, WRITE], &refused_paths()),
            Self::CellThatReads => allow(&[BASE, PATHS, READ, TALK, WRITE], &refused_from_here()?),
            Self::Compiler => allow(&[BASE, PATHS, KEEP], &refused_paths()),
            Self::Schemas => allow(&[BASE, PATHS], &refused_paths()),
            Self::Broker => allow(&[BASE, PATHS, TALK, CONNECT], &refused_paths()),
        }
    }
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// All calls that take a path.
fn refused_paths() -> Rules {
    PATHS.iter().map(|call| (*call, Vec::new())).collect()
}

/// The calls that open a path relative to the root or the working directory, not to a granted directory.
fn refused_from_here() -> io::Result<Rules> {
    let from_here = || rule(&[(0, SeccompCmpOp::Eq, HERE)]);
    Ok(BTreeMap::from([
        (libc::SYS_openat, vec![from_here()?]),
        (libc::SYS_openat2, vec![from_here()?]),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, Vec::new()),
    ]))
}

/// Allows the calls of `lists`. The handler answers those that are `refused`.
fn allow(lists: &[&[libc::c_long]], refused: &Rules) -> io::Result<()> {
    let calls = lists.iter().flat_map(|list| list.iter());
    let mut rules: Rules = calls.map(|call| (*call, Vec::new())).collect();
    let own = u64::from(std::process::id());
    // With this flag the call makes a thread, without it a process.
    let thread = u64::from(libc::CLONE_THREAD.cast_unsigned());
    rules.insert(
        libc::SYS_clone,
        vec![rule(&[(0, SeccompCmpOp::MaskedEq(thread), thread)])?],
    );
    // A process that aborts sends itself a signal.
    rules.insert(libc::SYS_tgkill, vec![rule(&[(0, SeccompCmpOp::Eq, own)])?]);
    rules.insert(
        libc::SYS_socketpair,
        vec![rule(&[
            (0, SeccompCmpOp::Eq, UNIX),
            (1, SeccompCmpOp::MaskedEq(SOCKET_TYPE), STREAM),
        ])?],
    );
    rules.insert(
        libc::SYS_fcntl,
        one_of(1, &FCNTLS.map(|request| u64::from(request.cast_unsigned())))?,
    );
    for call in [
        libc::SYS_clock_getres,
        libc::SYS_clock_gettime,
        libc::SYS_clock_nanosleep,
    ] {
        rules.insert(call, vec![rule(&[(0, SeccompCmpOp::Le, CLOCK_MAX)])?]);
    }
    if rules.contains_key(&libc::SYS_connect) {
        rules.insert(libc::SYS_socket, one_of(0, &INTERNET)?);
    } else if let Some(sends) = rules.get_mut(&libc::SYS_sendto) {
        // Only to the peer of a connected socket, without an address.
        sends.push(rule(&[(4, SeccompCmpOp::Eq, 0)])?);
    }
    // Only reads, and only the limits of this process.
    let (own_limits, no_new) = ((0, SeccompCmpOp::Eq, 0), (2, SeccompCmpOp::Eq, 0));
    rules.insert(libc::SYS_prlimit64, vec![rule(&[own_limits, no_new])?]);
    rules.insert(libc::SYS_ioctl, one_of(1, &IOCTLS)?);
    rules.insert(libc::SYS_prctl, one_of(0, &PRCTLS)?);
    // The flags of `clone3` are behind a pointer, which a filter cannot follow. If it fails with ENOSYS, libc
    // uses `clone`. libc also asks for the cores of single threads, and does without.
    let cores_of_others = rule(&[(0, SeccompCmpOp::Ne, 0)])?;
    install(
        BTreeMap::from([
            (libc::SYS_clone3, Vec::new()),
            (libc::SYS_sched_getaffinity, vec![cores_of_others]),
        ]),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOSYS.cast_unsigned()),
    )?;
    install(refused.clone(), SeccompAction::Allow, SeccompAction::Trap)?;
    // Last, because it allows no further filter.
    install(rules, SeccompAction::KillProcess, SeccompAction::Allow)
}

fn one_of(argument: u8, values: &[u64]) -> io::Result<Vec<SeccompRule>> {
    let rules = values.iter();
    rules
        .map(|value| rule(&[(argument, SeccompCmpOp::Eq, *value)]))
        .collect()
}

fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> io::Result<SeccompRule> {
    let conditions = conditions.iter().map(|(argument, operator, value)| {
        // The kernel takes the pointers of `prlimit64` and `sendto` in 64 bits, the others in 32.
        let width = if matches!(argument, 2 | 4) {
            SeccompCmpArgLen::Qword
        } else {
            SeccompCmpArgLen::Dword
        };
        SeccompCondition::new(*argument, width, operator.clone(), *value)
    });
    conditions
        .collect::<Result<_, _>>()
        .and_then(SeccompRule::new)
        .map_err(io::Error::other)
}

/// Installs a filter: `matched` for calls that match a rule, `otherwise` for all others.
fn install(rules: Rules, otherwise: SeccompAction, matched: SeccompAction) -> io::Result<()> {
    let arch = std::env::consts::ARCH
        .try_into()
        .map_err(io::Error::other)?;
    let program: BpfProgram = SeccompFilter::new(rules, otherwise, matched, arch)
        .and_then(TryInto::try_into)
        .map_err(io::Error::other)?;
    seccompiler::apply_filter(&program).map_err(io::Error::other)
}
