//! What code that has escaped its sandbox tries inside a cell: raw system calls against files, processes,
//! limits, the network and the kernel. Each is tried in a process of its own, because the first that is
//! not allowed ends it.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd as _;

/// What the attempts aim at.
pub(crate) struct Target {
    pub(crate) parent: usize,
    /// The host's environment, with its secrets.
    pub(crate) environ: CString,
    pub(crate) root: CString,
    pub(crate) file: CString,
    pub(crate) other: CString,
    /// A file that the process had open for writing before it was restricted.
    pub(crate) open: File,
    pub(crate) buffer: Vec<u8>,
}

impl Target {
    fn file(&self) -> usize {
        self.file.as_ptr() as usize
    }

    fn environ(&self) -> usize {
        self.environ.as_ptr() as usize
    }

    fn root(&self) -> usize {
        self.root.as_ptr() as usize
    }

    fn other(&self) -> usize {
        self.other.as_ptr() as usize
    }

    fn open(&self) -> usize {
        usize::try_from(self.open.as_raw_fd()).unwrap_or(usize::MAX)
    }

    fn buffer(&self) -> usize {
        self.buffer.as_ptr() as usize
    }
}

/// An attempt: its name, the call and its arguments.
pub(crate) type Attack = (&'static str, libc::c_long, fn(&Target) -> [usize; 6]);

/// The working directory, where a call takes a directory.
const HERE: usize = (libc::AT_FDCWD as isize).cast_unsigned();

const PATH: usize = libc::O_PATH as usize;
const WRITE: usize = libc::O_RDWR as usize;
const CREATE: usize = (libc::O_RDWR | libc::O_CREAT) as usize;

/// Requests of `fcntl` that libc does not name.
const F_SETSIG: usize = 10;
const F_SETOWN_EX: usize = 15;

/// Returns the clock that counts the processor time of a process.
fn clock_of(process: usize) -> usize {
    (!process << 3) | 2
}

/// Allowed only in the compile child, which gets a file to write to.
pub(crate) const WRITE_OPEN: &str = "write to an open file";

#[rustfmt::skip]
pub(crate) const ATTACKS: &[Attack] = &[
    ("read a file", libc::SYS_openat, |t| [HERE, t.file(), 0, 0, 0, 0]),
    ("read a file by its whole path", libc::SYS_openat, |t| [3, t.file(), 0, 0, 0, 0]),
    ("read a file with a resolver", libc::SYS_openat2, |t| [HERE, t.file(), t.buffer(), 24, 0, 0]),
    ("read the host's environment", libc::SYS_openat, |t| [HERE, t.environ(), 0, 0, 0, 0]),
    ("list a folder", libc::SYS_openat, |t| [HERE, t.root(), libc::O_DIRECTORY as usize, 0, 0, 0]),
    ("take hold of a folder", libc::SYS_openat, |t| [HERE, t.root(), PATH, 0, 0, 0]),
    ("open a file to write", libc::SYS_openat, |t| [HERE, t.file(), WRITE, 0, 0, 0]),
    ("create a file", libc::SYS_openat, |t| [HERE, t.other(), CREATE, 0o600, 0, 0]),
    (WRITE_OPEN, libc::SYS_write, |t| [t.open(), t.buffer(), 1, 0, 0, 0]),
    ("cut a file", libc::SYS_truncate, |t| [t.file(), 0, 0, 0, 0, 0]),
    ("make a folder", libc::SYS_mkdirat, |t| [HERE, t.other(), 0o700, 0, 0, 0]),
    ("remove a file", libc::SYS_unlinkat, |t| [HERE, t.file(), 0, 0, 0, 0]),
    ("rename a file", libc::SYS_renameat2, |t| [HERE, t.file(), HERE, t.other(), 0, 0]),
    ("link a file", libc::SYS_linkat, |t| [HERE, t.file(), HERE, t.other(), 0, 0]),
    ("make a symbolic link", libc::SYS_symlinkat, |t| [t.file(), HERE, t.other(), 0, 0, 0]),
    ("make a device", libc::SYS_mknodat, |t| [HERE, t.other(), libc::S_IFIFO as usize | 0o600, 0, 0, 0]),
    ("change a mode", libc::SYS_fchmodat, |t| [HERE, t.file(), 0o777, 0, 0, 0]),
    ("change an owner", libc::SYS_fchownat, |t| [HERE, t.file(), 1, 1, 0, 0]),
    ("change a time", libc::SYS_utimensat, |t| [HERE, t.file(), 0, 0, 0, 0]),
    ("watch files", libc::SYS_inotify_init1, |_| [0; 6]),
    ("watch the file system", libc::SYS_fanotify_init, |_| [0; 6]),
    ("open by a handle", libc::SYS_open_by_handle_at, |t| [HERE, t.buffer(), 0, 0, 0, 0]),
    ("make a file in memory", libc::SYS_memfd_create, |t| [t.file(), 0, 0, 0, 0, 0]),
    ("copy between files", libc::SYS_copy_file_range, |_| [0, 0, 1, 0, 1, 0]),
    ("send a file", libc::SYS_sendfile, |_| [1, 0, 0, 1, 0, 0]),
    ("splice", libc::SYS_splice, |_| [0, 0, 1, 0, 1, 0]),
    ("make a pipe", libc::SYS_pipe2, |t| [t.buffer(), 0, 0, 0, 0, 0]),
    ("execute a program", libc::SYS_execve, |t| [t.file(), 0, 0, 0, 0, 0]),
    ("execute by descriptor", libc::SYS_execveat, |t| [HERE, t.file(), 0, 0, 0, 0]),
    ("make a process", libc::SYS_clone, |_| [libc::SIGCHLD as usize, 0, 0, 0, 0, 0]),
    ("make a process with clone3", libc::SYS_clone3, |t| [t.buffer(), 88, 0, 0, 0, 0]),
    ("end the host", libc::SYS_kill, |t| [t.parent, libc::SIGTERM as usize, 0, 0, 0, 0]),
    ("signal a thread", libc::SYS_tkill, |t| [t.parent, libc::SIGTERM as usize, 0, 0, 0, 0]),
    ("signal a thread of the host", libc::SYS_tgkill, |t| [t.parent, t.parent, libc::SIGTERM as usize, 0, 0, 0]),
    ("queue a signal", libc::SYS_rt_sigqueueinfo, |t| [t.parent, libc::SIGTERM as usize, t.buffer(), 0, 0, 0]),
    ("queue a signal to a thread", libc::SYS_rt_tgsigqueueinfo, |t| [t.parent, t.parent, libc::SIGTERM as usize, t.buffer(), 0, 0]),
    ("name a process", libc::SYS_pidfd_open, |t| [t.parent, 0, 0, 0, 0, 0]),
    ("signal by name", libc::SYS_pidfd_send_signal, |_| [0; 6]),
    ("take a descriptor", libc::SYS_pidfd_getfd, |_| [0; 6]),
    ("signal the host on input", libc::SYS_fcntl, |t| [0, libc::F_SETOWN as usize, t.parent, 0, 0, 0]),
    ("signal a thread on input", libc::SYS_fcntl, |t| [0, F_SETOWN_EX, t.buffer(), 0, 0, 0]),
    ("choose the signal of input", libc::SYS_fcntl, |_| [0, F_SETSIG, libc::SIGTERM as usize, 0, 0, 0]),
    ("take a lease on a file", libc::SYS_fcntl, |_| [0, libc::F_SETLEASE as usize, 0, 0, 0, 0]),
    ("watch a folder", libc::SYS_fcntl, |_| [3, libc::F_NOTIFY as usize, 1, 0, 0, 0]),
    ("trace the host", libc::SYS_ptrace, |t| [libc::PTRACE_SEIZE as usize, t.parent, 0, 0, 0, 0]),
    ("read the host's memory", libc::SYS_process_vm_readv, |t| [t.parent, t.buffer(), 0, t.buffer(), 0, 0]),
    ("write the host's memory", libc::SYS_process_vm_writev, |t| [t.parent, t.buffer(), 0, t.buffer(), 0, 0]),
    ("compare processes", libc::SYS_kcmp, |t| [t.parent, t.parent, 0, 0, 0, 0]),
    ("read the host's limits", libc::SYS_prlimit64, |t| [t.parent, 7, 0, t.buffer(), 0, 0]),
    ("change the host's limits", libc::SYS_prlimit64, |t| [t.parent, 4, t.buffer(), 0, 0, 0]),
    ("change its own limits", libc::SYS_prlimit64, |t| [0, 4, t.buffer(), 0, 0, 0]),
    ("pin the host to a core", libc::SYS_sched_setaffinity, |t| [t.parent, 8, t.buffer(), 0, 0, 0]),
    ("see the host's cores", libc::SYS_sched_getaffinity, |t| [t.parent, t.buffer.len(), t.buffer(), 0, 0, 0]),
    ("see the host's processor time", libc::SYS_clock_gettime, |t| [clock_of(t.parent), t.buffer(), 0, 0, 0, 0]),
    ("find out whether the host lives", libc::SYS_clock_getres, |t| [clock_of(t.parent), t.buffer(), 0, 0, 0, 0]),
    ("slow the host down", libc::SYS_setpriority, |t| [0, t.parent, 19, 0, 0, 0]),
    ("change the host's scheduler", libc::SYS_sched_setscheduler, |t| [t.parent, 0, t.buffer(), 0, 0, 0]),
    ("change the host's attributes", libc::SYS_sched_setattr, |t| [t.parent, t.buffer(), 0, 0, 0, 0]),
    ("change the host's disk priority", libc::SYS_ioprio_set, |t| [1, t.parent, 0, 0, 0, 0]),
    ("outlive the host", libc::SYS_prctl, |_| [libc::PR_SET_PDEATHSIG as usize, 0, 0, 0, 0, 0]),
    ("become dumpable", libc::SYS_prctl, |_| [libc::PR_SET_DUMPABLE as usize, 1, 0, 0, 0, 0]),
    ("let others trace it", libc::SYS_prctl, |_| [0x5961_6d61, usize::MAX, 0, 0, 0, 0]),
    ("keep capabilities", libc::SYS_prctl, |_| [libc::PR_SET_KEEPCAPS as usize, 1, 0, 0, 0, 0]),
    ("use TCP", libc::SYS_socket, |_| [libc::AF_INET as usize, libc::SOCK_STREAM as usize, 0, 0, 0, 0]),
    ("use UDP", libc::SYS_socket, |_| [libc::AF_INET6 as usize, libc::SOCK_DGRAM as usize, 0, 0, 0, 0]),
    ("use local sockets", libc::SYS_socket, |_| [libc::AF_UNIX as usize, libc::SOCK_STREAM as usize, 0, 0, 0, 0]),
    ("use netlink", libc::SYS_socket, |_| [libc::AF_NETLINK as usize, libc::SOCK_RAW as usize, 0, 0, 0, 0]),
    ("use raw sockets", libc::SYS_socket, |_| [libc::AF_PACKET as usize, libc::SOCK_RAW as usize, 0, 0, 0, 0]),
    ("make a pair of IP sockets", libc::SYS_socketpair, |t| [libc::AF_INET as usize, 1, 0, t.buffer(), 0, 0]),
    ("make a pair of datagrams", libc::SYS_socketpair, |t| [libc::AF_UNIX as usize, libc::SOCK_DGRAM as usize, 0, t.buffer(), 0, 0]),
    ("make a pair of packets", libc::SYS_socketpair, |t| [libc::AF_UNIX as usize, libc::SOCK_SEQPACKET as usize, 0, t.buffer(), 0, 0]),
    ("send to an address", libc::SYS_sendto, |t| [0, t.buffer(), 1, 0, t.buffer(), 16]),
    ("connect", libc::SYS_connect, |t| [0, t.buffer(), 16, 0, 0, 0]),
    ("bind", libc::SYS_bind, |t| [0, t.buffer(), 16, 0, 0, 0]),
    ("listen", libc::SYS_listen, |_| [0, 1, 0, 0, 0, 0]),
    ("accept", libc::SYS_accept4, |_| [0; 6]),
    ("mount", libc::SYS_mount, |t| [t.file(), t.file(), t.file(), 0, 0, 0]),
    ("unmount", libc::SYS_umount2, |t| [t.file(), 0, 0, 0, 0, 0]),
    ("open a file system", libc::SYS_fsopen, |t| [t.file(), 0, 0, 0, 0, 0]),
    ("open a tree", libc::SYS_open_tree, |t| [HERE, t.file(), 0, 0, 0, 0]),
    ("move a mount", libc::SYS_move_mount, |t| [HERE, t.file(), HERE, t.other(), 0, 0]),
    ("change a mount", libc::SYS_mount_setattr, |t| [HERE, t.file(), 0, t.buffer(), 32, 0]),
    ("change the root", libc::SYS_chroot, |t| [t.file(), 0, 0, 0, 0, 0]),
    ("swap the root", libc::SYS_pivot_root, |t| [t.file(), t.file(), 0, 0, 0, 0]),
    ("make a user namespace", libc::SYS_unshare, |_| [libc::CLONE_NEWUSER as usize, 0, 0, 0, 0, 0]),
    ("enter a namespace", libc::SYS_setns, |_| [0; 6]),
    ("become another user", libc::SYS_setuid, |_| [0; 6]),
    ("become another group", libc::SYS_setgid, |_| [0; 6]),
    ("swap users", libc::SYS_setreuid, |_| [0; 6]),
    ("take all of a user", libc::SYS_setresuid, |_| [0; 6]),
    ("take groups", libc::SYS_setgroups, |t| [1, t.buffer(), 0, 0, 0, 0]),
    ("take capabilities", libc::SYS_capset, |t| [t.buffer(), t.buffer(), 0, 0, 0, 0]),
    ("share memory", libc::SYS_shmget, |_| [0, 4096, 0o1600, 0, 0, 0]),
    ("make a message queue", libc::SYS_msgget, |_| [0, 0o1600, 0, 0, 0, 0]),
    ("make a semaphore", libc::SYS_semget, |_| [0, 1, 0o1600, 0, 0, 0]),
    ("open a POSIX queue", libc::SYS_mq_open, |t| [t.file(), CREATE, 0o600, 0, 0, 0]),
    ("load a program into the kernel", libc::SYS_bpf, |t| [0, t.buffer(), 64, 0, 0, 0]),
    ("count events", libc::SYS_perf_event_open, |t| [t.buffer(), 0, 0, 0, 0, 0]),
    ("handle page faults", libc::SYS_userfaultfd, |_| [1, 0, 0, 0, 0, 0]),
    ("make a ring", libc::SYS_io_uring_setup, |t| [1, t.buffer(), 0, 0, 0, 0]),
    ("use keys", libc::SYS_keyctl, |_| [0; 6]),
    ("add a key", libc::SYS_add_key, |t| [t.file(), t.file(), t.buffer(), 1, 0, 0]),
    ("load a module", libc::SYS_init_module, |t| [t.buffer(), 1, t.file(), 0, 0, 0]),
    ("load another kernel", libc::SYS_kexec_load, |_| [0; 6]),
    ("restart the machine", libc::SYS_reboot, |_| [0; 6]),
    ("set the clock", libc::SYS_clock_settime, |t| [0, t.buffer(), 0, 0, 0, 0]),
    ("rename the machine", libc::SYS_sethostname, |t| [t.buffer(), 1, 0, 0, 0, 0]),
    ("change the personality", libc::SYS_personality, |_| [0; 6]),
    ("change its filter", libc::SYS_seccomp, |t| [1, 0, t.buffer(), 0, 0, 0]),
    ("make a timer", libc::SYS_timer_create, |t| [0, 0, t.buffer(), 0, 0, 0]),
    ("type into the terminal", libc::SYS_ioctl, |t| [0, 0x5412, t.buffer(), 0, 0, 0]),
];
