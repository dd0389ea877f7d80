//! The folder for the log files of jobs. Opens files without leaving the folder, following links or
//! waiting for a reader, even if others change the folder at the same time.

#[cfg(test)]
mod tests;

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    Access, FileType, Mode, OFlags, ResolveFlags, access, fstat, mkdirat, open, openat2,
};
use rustix::io::Errno;
use thiserror::Error;

use crate::hero::job::log_path_below;

/// How many folders deep a log file may be.
const DEPTH_MAX: usize = 16;

/// No part of the path may lead out of the folder or be a link.
const BELOW: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

/// Why a log file cannot be opened. Never quotes the path.
#[derive(Debug, Error)]
pub enum LogFileError {
    /// The path or the file is not allowed.
    #[error("{0}")]
    Refused(&'static str),
    /// The system returned an error.
    #[error("it cannot be opened: {0}")]
    System(io::Error),
}

/// The folder for log files. It is opened again for each file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRoot {
    dir: PathBuf,
}

impl LogRoot {
    /// Names the folder by an absolute path.
    pub fn new(dir: &Path) -> Self {
        let dir = dir.to_owned();
        Self { dir }
    }

    /// Makes the folder if it is missing, readable only by its owner, and checks it.
    pub fn make(&self) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)?;
        self.check()
    }

    /// Checks that files can be made and opened safely in the folder.
    pub fn check(&self) -> io::Result<()> {
        let root = self.open_root()?;
        access(&self.dir, Access::WRITE_OK | Access::EXEC_OK)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match openat2(&root, ".", flags, Mode::empty(), BELOW) {
            Ok(_) => Ok(()),
            Err(Errno::NOSYS) => {
                let message =
                    "the kernel cannot open files below a folder safely (openat2, Linux 5.6)";
                Err(io::Error::new(io::ErrorKind::Unsupported, message))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a job's log file for appending. Makes it and the folders above it if they are missing,
    /// readable only by their owner. Blocks as long as the file system does.
    pub fn append(&self, log_path: &str) -> Result<File, LogFileError> {
        let below = self.below(log_path)?;
        let root = self.open_root().map_err(LogFileError::System)?;
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
        let opened = match regular(root.as_fd(), below, flags) {
            Err(Errno::NOENT) => {
                make_folders(root.as_fd(), below).and_then(|()| regular(root.as_fd(), below, flags))
            }
            opened => opened,
        };
        opened.map_err(refusal_of)
    }

    /// Opens a job's log file for reading. Blocks as long as the file system does.
    pub fn read(&self, log_path: &str) -> Result<File, LogFileError> {
        let below = self.below(log_path)?;
        let root = self.open_root().map_err(LogFileError::System)?;
        regular(root.as_fd(), below, OFlags::RDONLY).map_err(refusal_of)
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

    /// Opens the folder itself. The operator chose it, so links in its path are followed.
    fn open_root(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(open(&self.dir, flags, Mode::empty())?)
    }
}

/// Opens a file and checks that it is a regular file.
fn regular(root: BorrowedFd<'_>, below: &str, flags: OFlags) -> rustix::io::Result<File> {
    // Do not wait for anything but the disk: a FIFO without a reader is refused at once.
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let mode = if flags.contains(OFlags::CREATE) {
        Mode::RUSR | Mode::WUSR
    } else {
        Mode::empty()
    };
    let file = openat2(root, below, flags, mode, BELOW)?;
    match FileType::from_raw_mode(fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(File::from(file)),
        FileType::Directory => Err(Errno::ISDIR),
        _ => Err(Errno::NXIO),
    }
}

/// Makes the folders above a file.
fn make_folders(root: BorrowedFd<'_>, below: &str) -> rustix::io::Result<()> {
    let Some((folders, _)) = below.rsplit_once('/') else {
        return Ok(());
    };
    let mut folder: Option<OwnedFd> = None;
    for name in folders.split('/') {
        let above = folder.as_ref().map_or(root, AsFd::as_fd);
        match mkdirat(above, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        folder = Some(openat2(above, name, flags, Mode::empty(), BELOW)?);
    }
    Ok(())
}

fn refusal_of(error: Errno) -> LogFileError {
    LogFileError::Refused(match error {
        Errno::LOOP | Errno::XDEV => "a link is on the way to it, or is it",
        Errno::NOTDIR => "a part of its path is not a folder",
        Errno::ISDIR => "it is a folder",
        Errno::NXIO => "it is not a regular file",
        other => return LogFileError::System(other.into()),
    })
}
