//! The log of one job: lines are appended as the guest writes them.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use host_core::cell::LogLine;
use host_core::time::Time;

use super::log_text;

/// Who may read what we write: its owner.
const MODE: u32 = 0o600;

/// An open log.
#[derive(Debug)]
pub(super) struct LogFile {
    file: File,
    bytes: u64,
}

impl LogFile {
    /// Opens the file to append to it, or makes it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(MODE)
            .open(path)?;
        Ok(Self { file, bytes: 0 })
    }

    /// Appends lines and returns how many bytes were appended in all. `started_at` is what the times of
    /// the lines count from.
    pub(super) fn append(&mut self, started_at: Time, lines: &[LogLine]) -> io::Result<u64> {
        let text = log_text::text(started_at, lines);
        self.file.write_all(text.as_bytes())?;
        self.bytes += text.len() as u64;
        Ok(self.bytes)
    }
}

/// Writes a new file for its owner alone, over one that was there.
pub(super) fn write(path: &str, text: &str) -> io::Result<()> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(MODE)
        .open(path);
    file?.write_all(text.as_bytes())
}
