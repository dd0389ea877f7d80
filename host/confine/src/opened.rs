//! Serves open files to code that opens them by path. A child may not open paths: the kernel sends it a
//! signal instead, and the signal handler answers with a file that the host passed, or with a refusal.

use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd as _, IntoRawFd as _, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};

/// The path that names the file that was passed.
const HANDED_OVER: &std::ffi::CStr = c"/handed-over";

/// No file.
const NONE: i32 = -1;

/// The file that the next call that opens [`HANDED_OVER`] gets.
static FILE: AtomicI32 = AtomicI32::new(NONE);

/// Calls `open` with a path that opens `file`, once. The calls of this process must be restricted.
pub fn as_file<T>(file: File, open: impl FnOnce(&Path) -> T) -> T {
    FILE.store(file.into_raw_fd(), Ordering::SeqCst);
    let path = HANDED_OVER.to_str().unwrap_or_default();
    let opened = open(Path::new(path));
    let left = FILE.swap(NONE, Ordering::SeqCst);
    if left != NONE {
        // SAFETY: no call has taken the descriptor, so it is ours again.
        drop(unsafe { OwnedFd::from_raw_fd(left) });
    }
    opened
}

/// Installs the handler of calls that open or examine paths.
pub(super) fn answer() -> io::Result<()> {
    // SAFETY: all fields are plain data, for which zero is a value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_call as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the handler makes only calls that are allowed in a handler.
    let done = unsafe { libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut()) };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

extern "C" fn on_call(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes the registers of the interrupted call.
    let call = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let answer = answer_to(number(call), arguments(call));
    set_answer(call, answer);
}

/// Returns what the call returns: a descriptor, zero, or a negative error.
fn answer_to(number: libc::c_long, arguments: [i64; 3]) -> i64 {
    let refused = -i64::from(libc::EACCES);
    match number {
        libc::SYS_openat if is_handed_over(arguments[1]) => take(),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open if is_handed_over(arguments[0]) => take(),
        // libc also uses this call for open files, with an empty path.
        libc::SYS_newfstatat if arguments[0] >= 0 => {
            // SAFETY: the caller gave the kernel this pointer for the same result.
            match unsafe { libc::syscall(libc::SYS_fstat, arguments[0], arguments[2]) } {
                0 => 0,
                _ => -i64::from(libc::EBADF),
            }
        }
        // The caller then tries an older call.
        libc::SYS_statx => -i64::from(libc::ENOSYS),
        _ => refused,
    }
}

fn take() -> i64 {
    match FILE.swap(NONE, Ordering::SeqCst) {
        NONE => -i64::from(libc::EACCES),
        file => i64::from(file),
    }
}

fn is_handed_over(path: i64) -> bool {
    let path = path as *const libc::c_char;
    // SAFETY: the caller gave the kernel this pointer as a path.
    !path.is_null() && unsafe { std::ffi::CStr::from_ptr(path) } == HANDED_OVER
}

#[cfg(target_arch = "x86_64")]
fn number(call: &libc::ucontext_t) -> libc::c_long {
    call.uc_mcontext.gregs[libc::REG_RAX as usize]
}

#[cfg(target_arch = "x86_64")]
fn arguments(call: &libc::ucontext_t) -> [i64; 3] {
    let gregs = &call.uc_mcontext.gregs;
    let at = |register: libc::c_int| gregs[register.cast_unsigned() as usize];
    [at(libc::REG_RDI), at(libc::REG_RSI), at(libc::REG_RDX)]
}

#[cfg(target_arch = "x86_64")]
fn set_answer(call: &mut libc::ucontext_t, answer: i64) {
    call.uc_mcontext.gregs[libc::REG_RAX as usize] = answer;
}

#[cfg(target_arch = "aarch64")]
fn number(call: &libc::ucontext_t) -> libc::c_long {
    call.uc_mcontext.regs[8].cast_signed()
}

#[cfg(target_arch = "aarch64")]
fn arguments(call: &libc::ucontext_t) -> [i64; 3] {
    [0, 1, 2].map(|register: usize| call.uc_mcontext.regs[register].cast_signed())
}

#[cfg(target_arch = "aarch64")]
fn set_answer(call: &mut libc::ucontext_t, answer: i64) {
    call.uc_mcontext.regs[0] = answer.cast_unsigned();
}
