//! The folder for the log files of jobs. Opens files without leaving the folder, following links or
//! waiting for a reader, even if others change the folder at the same time.

#[cfg(test)]
mod tests;

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use host_runtime::folder::{self, Dir};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use thiserror::Error;

use crate::job::log_path_below;

/// How many folders deep a log file may be.
const DEPTH_MAX: usize = 16;

/// Why a log file cannot be opened. Never quotes the path.
#[derive(Debug, Error)]
pub(crate) enum LogFileError {
    /// The path or the file is not allowed.
    #[error("{0}")]
    Refused(&'static str),
    /// The system returned an error.
    #[error("it cannot be opened: {0}")]
    System(io::Error),
}

/// The folder for log files. It is opened again for each file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogRoot {
    dir: PathBuf,
}

impl LogRoot {
    /// Names the folder by an absolute path.
    pub(crate) fn new(dir: &Path) -> Self {
        let dir = dir.to_owned();
        Self { dir }
    }

    /// Makes the folder if it is missing, readable only by its owner, and checks it.
    pub(crate) fn make(&self) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(folder::FOLDER_MODE)
            .create(&self.dir)?;
        self.check()
    }

    /// Checks that files can be made in the folder.
    pub(crate) fn check(&self) -> io::Result<()> {
        folder::open(&self.dir)?;
        Ok(access(&self.dir, Access::WRITE_OK | Access::EXEC_OK)?)
    }

    /// Opens a job's log file for appending. Makes it and the folders above it if they are missing,
    /// readable only by their owner. Blocks as long as the file system does.
    pub(crate) fn append(&self, log_path: &str) -> Result<File, LogFileError> {
        self.open(log_path, folder::enter_or_make, folder::append)
    }

    /// Opens a job's log file for reading. Blocks as long as the file system does.
    pub(crate) fn read(&self, log_path: &str) -> Result<File, LogFileError> {
        self.open(log_path, folder::enter, folder::read)
    }

    /// Enters one folder after the other, so that no link is followed. The operator chose the first, so
    /// links in its path are.
    fn open(
        &self,
        log_path: &str,
        enter: fn(&Dir, &Path) -> io::Result<Dir>,
        open: fn(&Dir, &Path) -> io::Result<File>,
    ) -> Result<File, LogFileError> {
        let mut parts = self.below(log_path)?.split('/').map(Path::new);
        let mut name = parts.next().unwrap_or(Path::new(""));
        let mut folder = folder::open(&self.dir).map_err(LogFileError::System)?;
        for next in parts {
            folder = enter(&folder, name).map_err(refusal_of)?;
            name = next;
        }
        open(&folder, name).map_err(refusal_of)
    }

    fn below<'a>(&self, log_path: &'a str) -> Result<&'a str, LogFileError> {
        let root = self.dir.to_str().unwrap_or_default();
        let below = log_path_below(root, log_path).map_err(LogFileError::Refused)?;
        if below.split('/').count() > DEPTH_MAX {
            let why = "it is more than 15 folders below the configured one (log_dir)";
            return Err(LogFileError::Refused(why));
        }
        Ok(below)
    }
}

fn refusal_of(error: io::Error) -> LogFileError {
    LogFileError::Refused(match Errno::from_io_error(&error) {
        Some(Errno::LOOP) => "it, or a part of its path, is a link",
        Some(Errno::NOTDIR) => "a part of its path is not a folder",
        Some(Errno::ISDIR) => "it is a folder",
        Some(Errno::NXIO) => "it is not a regular file",
        _ => return LogFileError::System(error),
    })
}
