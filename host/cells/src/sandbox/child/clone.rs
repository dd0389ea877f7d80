//! Creates a process, in namespaces of its own if the kernel allows it.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, geteuid, set_parent_process_death_signal};

/// The namespaces that root may make.
const NAMESPACES: libc::c_int = libc::CLONE_NEWIPC
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWUTS;

/// Tells a child that it has namespaces of its own.
const ISOLATED: &CStr = c"--isolated";

/// The exit code of a child whose program cannot be executed.
const NOT_EXECUTED: libc::c_int = 127;

/// `close_range` marks descriptors close-on-exec.
const CLOSE_RANGE_CLOEXEC: libc::c_long = 4;

/// The highest descriptor to close if the kernel has no `close_range`.
const INHERITED_MAX: libc::c_long = 4_096;

/// All that a child needs between clone and exec, when it must not allocate.
pub(super) struct Prepared {
    exe: CString,
    words: Vec<CString>,
    /// The index of each is its number in the child.
    fds: Vec<OwnedFd>,
    /// The file through which the child enters its control group.
    group: Option<OwnedFd>,
    user_map: Vec<u8>,
}

impl Prepared {
    pub(super) fn new(
        exe: CString,
        words: Vec<String>,
        fds: Vec<OwnedFd>,
        group: Option<OwnedFd>,
    ) -> io::Result<Self> {
        // Above all final numbers, so that none is overwritten before it is moved.
        let least = i32::try_from(fds.len()).map_err(io::Error::other)?;
        let beyond = |fd| fcntl_dupfd_cloexec::<OwnedFd>(fd, least);
        let fds = fds.into_iter().map(beyond).collect::<Result<_, _>>()?;
        let group = group.map(beyond).transpose()?;
        let words = words.into_iter().map(CString::new);
        Ok(Self {
            exe,
            words: words.collect::<Result<_, _>>()?,
            fds,
            group,
            user_map: format!("0 {} 1\n", geteuid().as_raw()).into_bytes(),
        })
    }

    /// Starts the process and returns it.
    pub(super) fn start(self, has_network: bool) -> io::Result<OwnedFd> {
        let mut isolated = NAMESPACES;
        if !geteuid().is_root() {
            isolated |= libc::CLONE_NEWUSER;
        }
        if has_network {
            isolated &= !libc::CLONE_NEWNET;
        }
        match self.clone(isolated) {
            Err(error) if is_not_allowed(&error) => self.clone(0),
            started => started,
        }
    }

    fn clone(&self, namespaces: libc::c_int) -> io::Result<OwnedFd> {
        let mut words: Vec<*const libc::c_char> =
            self.words.iter().map(|word| word.as_ptr()).collect();
        if namespaces != 0 {
            words.push(ISOLATED.as_ptr());
        }
        words.push(std::ptr::null());
        let (failure, report) = pipe_with(PipeFlags::CLOEXEC)?;
        let report =
            fcntl_dupfd_cloexec(report, i32::try_from(self.fds.len()).unwrap_or(i32::MAX))?;
        let mut process: libc::c_int = -1;
        let flags = libc::c_long::from(namespaces | libc::CLONE_PIDFD | libc::SIGCHLD);
        let none: libc::c_long = 0;
        // SAFETY: without CLONE_VM the child has its own copy of all memory, as after `fork`, and until
        // it executes its program it makes only system calls.
        let made =
            unsafe { libc::syscall(libc::SYS_clone, flags, none, &raw mut process, none, none) };
        match made {
            -1 => return Err(io::Error::last_os_error()),
            0 => self.execute(namespaces, &words, &report),
            _ => {}
        }
        // SAFETY: the kernel has just made it for us.
        let process = unsafe { OwnedFd::from_raw_fd(process) };
        drop(report);
        let mut code = [0; 4];
        match rustix::io::read(&failure, &mut code) {
            // The program was executed, which closed the other end.
            Ok(0) => Ok(process),
            Ok(_) => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(code))),
            Err(error) => Err(error.into()),
        }
    }

    /// Enters the group and becomes the program. Runs in the child.
    fn execute(
        &self,
        namespaces: libc::c_int,
        words: &[*const libc::c_char],
        report: &OwnedFd,
    ) -> ! {
        let error = match self.enter_group() {
            Ok(()) => self.become_program(namespaces, words),
            Err(error) => error.raw_os_error(),
        };
        let _ = rustix::io::write(report, &error.to_ne_bytes());
        // SAFETY: it ends this process and nothing else.
        unsafe { libc::_exit(NOT_EXECUTED) }
    }

    /// Puts this process under the limits of its control group.
    fn enter_group(&self) -> rustix::io::Result<()> {
        match &self.group {
            Some(group) => rustix::io::write(group, b"0").map(drop),
            None => Ok(()),
        }
    }

    /// Returns why the program could not be executed.
    fn become_program(
        &self,
        namespaces: libc::c_int,
        words: &[*const libc::c_char],
    ) -> libc::c_int {
        if namespaces & libc::CLONE_NEWUSER != 0 {
            // Without it the child has no rights in its namespace, and reports that.
            let _ = self.map_user();
        }
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
        let environment = [std::ptr::null()];
        // SAFETY: the descriptors are open, and the lists end with null.
        unsafe {
            for (place, fd) in (0..).zip(&self.fds) {
                libc::dup2(fd.as_raw_fd(), place);
            }
            close_from(self.fds.len());
            let mut none = std::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
            libc::execve(self.exe.as_ptr(), words.as_ptr(), environment.as_ptr());
        }
        let error = io::Error::last_os_error().raw_os_error();
        error.unwrap_or_default()
    }

    /// Makes this process root of its own namespace.
    fn map_user(&self) -> rustix::io::Result<()> {
        write(c"/proc/self/setgroups", b"deny")?;
        write(c"/proc/self/uid_map", &self.user_map)
    }
}

/// Closes all descriptors from this one on at exec, including those that the host inherited.
///
/// # Safety
///
/// The process is about to exec and uses none of them.
unsafe fn close_from(first: usize) {
    let first = libc::c_long::try_from(first).unwrap_or_default();
    let (last, flags) = (libc::c_long::from(u32::MAX), CLOSE_RANGE_CLOEXEC);
    // SAFETY: it takes numbers only.
    if unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } == 0 {
        return;
    }
    // Linux before 5.11 cannot.
    for fd in first..INHERITED_MAX {
        // SAFETY: it takes numbers only.
        unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}

fn write(path: &CStr, bytes: &[u8]) -> rustix::io::Result<()> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, bytes).map(drop)
}

/// Returns whether the kernel, or a seccomp filter, refuses namespaces to this process.
fn is_not_allowed(error: &io::Error) -> bool {
    let refused = [
        Errno::PERM,
        Errno::ACCESS,
        Errno::INVAL,
        Errno::NOSPC,
        Errno::NOSYS,
        Errno::USERS,
    ];
    Errno::from_io_error(error).is_some_and(|error| refused.contains(&error))
}
