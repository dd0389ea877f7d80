//! Whether the process was started without a standard output (`>&-`). It must look before Rust's
//! runtime begins: that opens /dev/null in its place, and what is then written is lost without an error.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

static STDOUT_IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// The number of standard output.
const STDOUT: i32 = 1;

/// Runs when the program is loaded, before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = look;

extern "C" fn look() {
    // SAFETY: nothing is done with the descriptor but to ask whether it is open.
    let stdout = unsafe { BorrowedFd::borrow_raw(STDOUT) };
    let is_closed = rustix::io::fcntl_getfd(stdout) == Err(rustix::io::Errno::BADF);
    STDOUT_IS_CLOSED.store(is_closed, Ordering::Relaxed);
}

/// Returns whether there was no standard output when the process started.
pub(crate) fn stdout_is_closed() -> bool {
    STDOUT_IS_CLOSED.load(Ordering::Relaxed)
}
