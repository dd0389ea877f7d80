//! Room on the disk kept for bad times: a file that is given up when the disk is full, so that
//! jobs that were accepted can go on and end. Knows nothing of what is stored.

#[cfg(test)]
mod tests;

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, ftruncate};
use rustix::io::Errno;

/// How much is kept, in bytes.
const RESERVE_BYTES: u64 = 64 << 20;

/// The file, or its absence.
pub(super) struct Reserve {
    path: PathBuf,
    held: bool,
}

impl Reserve {
    /// Sets room aside beside the store at `store` if there is any.
    pub(super) fn beside(store: &Path) -> Self {
        let mut name = store.as_os_str().to_owned();
        name.push("-reserve");
        let mut reserve = Self {
            path: name.into(),
            held: false,
        };
        reserve.take();
        reserve
    }

    /// Sets the room aside if it is not and as much again stays free; tells whether it is now.
    ///
    /// Where the file system cannot set room aside, this counts as done: a full disk then leaves
    /// nothing to go on with.
    pub(super) fn take(&mut self) -> bool {
        if !self.held {
            self.held = !matches!(self.allocate(), Err(Errno::NOSPC | Errno::DQUOT));
            if !self.held {
                self.give_up();
            }
        }
        self.held
    }

    /// Gives the room to whoever writes next.
    pub(super) fn give_up(&mut self) {
        self.held = false;
        // If it cannot be removed there is no more room than before, which the next write finds.
        let _ = fs::remove_file(&self.path);
    }

    fn allocate(&self) -> Result<(), Errno> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.path)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        fallocate(&file, FallocateFlags::empty(), 0, 2 * RESERVE_BYTES)?;
        ftruncate(&file, RESERVE_BYTES)
    }
}
