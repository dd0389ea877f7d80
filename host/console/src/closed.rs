//! Whether the process was started without a standard output (`>&-`). This must be checked before Rust's
//! runtime starts: the runtime opens /dev/null in its place, and output is then lost without an error.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

static STDOUT_IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// The descriptor of standard output.
const STDOUT: i32 = 1;

/// Runs when the program is loaded, before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = check_stdout;

extern "C" fn check_stdout() {
    // SAFETY: this only checks whether the descriptor is open.
    let stdout = unsafe { BorrowedFd::borrow_raw(STDOUT) };
    let is_closed = rustix::io::fcntl_getfd(stdout) == Err(rustix::io::Errno::BADF);
    STDOUT_IS_CLOSED.store(is_closed, Ordering::Relaxed);
}

/// Returns whether there was no standard output when the process started.
pub(crate) fn stdout_is_closed() -> bool {
    STDOUT_IS_CLOSED.load(Ordering::Relaxed)
}
