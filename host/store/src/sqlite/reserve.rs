//! Reserves disk space with a file that is removed when the disk is full, so that accepted jobs can
//! still run and end. This module knows nothing of the store's content.

#[cfg(test)]
mod tests;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, OFlags, fallocate, ftruncate};
use rustix::io::Errno;

/// How much space is reserved, in bytes.
const RESERVE_BYTES: u64 = 64 << 20;

/// How much the log of a store with room inside may need, in bytes.
const LOG_BYTES: u64 = 16 << 20;

/// The space that a store has already, in bytes.
#[derive(Clone, Copy, Default)]
pub(super) struct FreeSpace {
    /// The free space inside it, from removed jobs.
    pub(super) inside: u64,
    /// The length of its log, which is reused from its start.
    pub(super) log: u64,
}

impl FreeSpace {
    /// Returns how much to reserve beside it.
    fn lacks(self) -> u64 {
        let log = LOG_BYTES.saturating_sub(self.log);
        RESERVE_BYTES.saturating_sub(self.inside).max(log)
    }
}

/// Returns how much space is reserved beside the store at `store`, in bytes.
pub fn reserved(store: &Path) -> u64 {
    fs::metadata(path(store)).map_or(0, |file| file.len())
}

fn path(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push("-reserve");
    name.into()
}

/// The reserve file, which may be absent.
pub(super) struct Reserve {
    path: PathBuf,
    held: bool,
}

impl Reserve {
    /// Reserves space next to the store at `store`, if the disk has enough. `room` is the space that the
    /// store has already.
    pub(super) fn beside(store: &Path, room: FreeSpace) -> Self {
        let mut reserve = Self {
            path: path(store),
            held: false,
        };
        reserve.take(|| room);
        reserve
    }

    /// Reserves the space if as much again stays free. Returns whether the space is reserved now. New jobs
    /// use the room inside the store first, so the disk needs less.
    ///
    /// If the file system cannot reserve space, this returns true. A full disk then also stops
    /// accepted jobs.
    pub(super) fn take(&mut self, room: impl FnOnce() -> FreeSpace) -> bool {
        if !self.held {
            let bytes = room().lacks();
            self.held =
                bytes == 0 || !matches!(self.allocate(bytes), Err(Errno::NOSPC | Errno::DQUOT));
            if !self.held {
                self.give_up();
            }
        }
        self.held
    }

    /// Removes the file, so that its space is free for the next writes.
    pub(super) fn give_up(&mut self) {
        self.held = false;
        // If the file cannot be removed, the next write reports that the disk is full.
        let _ = fs::remove_file(&self.path);
    }

    fn allocate(&self, bytes: u64) -> Result<(), Errno> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            // Nothing is waited for if a FIFO has its name.
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(&self.path)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        fallocate(&file, FallocateFlags::empty(), 0, 2 * bytes)?;
        ftruncate(&file, bytes)
    }
}
