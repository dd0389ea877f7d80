//! Who uses a data directory: the host that does, and the cells of an earlier one that may still be
//! there. Two hosts would execute the same jobs; so would a host beside the cells of a dead one.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use thiserror::Error;

/// How long the cells of a dead host may take to be gone; the kernel kills them with their host.
const ORPHANS_TIMEOUT: Duration = Duration::from_secs(10);

/// How often it is looked whether they are gone.
const ORPHANS_POLL: Duration = Duration::from_millis(5);

/// Why a data directory cannot be used.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another host uses it.
    #[error(
        "the host with process id {pid} uses it; stop that one first, or give this one another directory with --data"
    )]
    Taken {
        /// Its process id, as it wrote it.
        pid: String,
    },
    /// Cells of an earlier host do not end.
    #[error(
        "cells of an earlier host still run after {} s; end the processes that hold {} (`fuser` lists them)",
        ORPHANS_TIMEOUT.as_secs(), .path.display()
    )]
    Orphans {
        /// The file they hold.
        path: PathBuf,
    },
    /// A lock file cannot be used.
    #[error("cannot lock {}: {error}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// The right to use a data directory, until it is dropped.
#[derive(Debug)]
pub struct DataLock {
    _host: File,
}

impl DataLock {
    /// Takes `host.lock` in `data` and writes the process id into it. A host that was killed while it
    /// started a cell leaves the lock to that process for a moment, which is waited for.
    pub async fn take(data: &Path) -> Result<Self, LockError> {
        let path = data.join("host.lock");
        let mut host = open(&path)?;
        let mut waited = Duration::ZERO;
        loop {
            match host.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {
                    let pid = fs::read_to_string(&path).unwrap_or_default();
                    let pid = pid.trim().to_owned();
                    if is_alive(&pid) || waited >= ORPHANS_TIMEOUT {
                        return Err(LockError::Taken { pid });
                    }
                    tokio::time::sleep(ORPHANS_POLL).await;
                    waited += ORPHANS_POLL;
                }
                Err(TryLockError::Error(error)) => return Err(LockError::File { path, error }),
            }
        }
        let note = host
            .set_len(0)
            .and_then(|()| writeln!(host, "{}", std::process::id()));
        note.map_err(|error| LockError::File { path, error })?;
        Ok(Self { _host: host })
    }
}

/// Tells whether there is a process of this id.
fn is_alive(pid: &str) -> bool {
    let pid = pid.parse().ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// Returns the lock that cells inherit, once no cell of an earlier host holds it.
pub async fn cells(data: &Path) -> Result<File, LockError> {
    let path = data.join("cells.lock");
    let lock = open(&path)?;
    let mut waited = Duration::ZERO;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) if waited < ORPHANS_TIMEOUT => {
                tokio::time::sleep(ORPHANS_POLL).await;
                waited += ORPHANS_POLL;
            }
            Err(TryLockError::WouldBlock) => return Err(LockError::Orphans { path }),
            Err(TryLockError::Error(error)) => return Err(LockError::File { path, error }),
        }
    }
}

fn open(path: &Path) -> Result<File, LockError> {
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path);
    file.map_err(|error| LockError::File {
        path: path.to_owned(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_host_at_a_time_uses_a_directory() {
        let data = tempfile::TempDir::new().unwrap();
        let first = DataLock::take(data.path()).await.unwrap();
        let begun = tokio::time::Instant::now();
        let said = DataLock::take(data.path()).await.unwrap_err().to_string();
        let pid = std::process::id().to_string();
        assert!(said.contains(&pid) && said.contains("--data"), "{said}");
        assert_eq!(begun.elapsed(), Duration::ZERO, "it lives");
        drop(first);
        DataLock::take(data.path()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_dead_host_was_starting_is_waited_for() {
        let data = tempfile::TempDir::new().unwrap();
        let left = DataLock::take(data.path()).await.unwrap();
        let mut dead = Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        fs::write(data.path().join("host.lock"), dead.id().to_string()).unwrap();
        let stuck = DataLock::take(data.path()).await.unwrap_err();
        assert!(matches!(stuck, LockError::Taken { pid } if pid == dead.id().to_string()));
        let later = DataLock::take(data.path());
        let gone = async {
            tokio::time::sleep(ORPHANS_TIMEOUT / 2).await;
            drop(left);
        };
        let (later, ()) = tokio::join!(later, gone);
        later.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn cells_of_an_earlier_host_are_waited_for() {
        let data = tempfile::TempDir::new().unwrap();
        let orphan = cells(data.path()).await.unwrap();
        let stuck = cells(data.path()).await.unwrap_err().to_string();
        assert!(stuck.contains("cells.lock"), "{stuck}");
        let later = cells(data.path());
        let gone = async {
            tokio::time::sleep(ORPHANS_TIMEOUT / 2).await;
            drop(orphan);
        };
        let (later, ()) = tokio::join!(later, gone);
        later.unwrap();
    }
}
