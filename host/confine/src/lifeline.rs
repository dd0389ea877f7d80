//! How long a child may act for the host: until a kernel timer runs out that the host extends. The child compares it with
//! the clock before it acts, because a process may have been suspended between any two instructions.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::timerfd_gettime;

/// The timer that the host extends. The child cannot set it: its filter of system calls lets it only be read.
#[derive(Debug)]
pub struct Lifeline(OwnedFd);

impl Lifeline {
    /// Takes over the timer.
    pub const fn new(timer: OwnedFd) -> Self {
        Self(timer)
    }

    /// Returns whether it has run out. The kernel compares it with its clock in this call, even if nothing was woken yet.
    pub fn has_passed(&self) -> bool {
        // A timer that cannot be read allows nothing.
        timerfd_gettime(&self.0).map_or(true, |left| {
            left.it_value.tv_sec == 0 && left.it_value.tv_nsec == 0
        })
    }
}

impl AsFd for Lifeline {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
