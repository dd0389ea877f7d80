//! Locks a data directory for one host. A second host would execute the same jobs again, and so
//! would a host that starts while cells of a killed host still run.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use thiserror::Error;

/// How long the cells of a killed host have to exit. The kernel kills them together with their
/// host.
const ORPHANS_TIMEOUT: Duration = Duration::from_secs(10);

/// How often their lock is tried.
const ORPHANS_POLL: Duration = Duration::from_millis(5);

/// Why a data directory cannot be used.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another host uses it.
    #[error(
        "the host with process id {pid} uses it; stop that host first, or use another directory with --data"
    )]
    Taken { pid: String },
    /// Cells of an earlier host are still running.
    #[error(
        "cells of an earlier host are still running after {} s; end the processes that hold {} (`fuser` \
         lists them)",
        ORPHANS_TIMEOUT.as_secs(), .path.display()
    )]
    Orphans { path: PathBuf },
    /// A lock file cannot be used.
    #[error("cannot lock {}: {error}", .path.display())]
    File { path: PathBuf, error: io::Error },
}

/// The right to use a data directory. It ends on drop.
#[derive(Debug)]
pub struct DataLock {
    _host: File,
}

impl DataLock {
    /// Locks `host.lock` in `data` and writes the process id into it. If a host was killed while it
    /// started a cell, that process keeps the lock for a moment; this call waits for it.
    pub async fn take(data: &Path) -> Result<Self, LockError> {
        let path = data.join("host.lock");
        let host = open(&path)?;
        let mut waited = Duration::ZERO;
        loop {
            match host.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {
                    let pid = fs::read_to_string(&path)
                        .unwrap_or_default()
                        .trim()
                        .to_owned();
                    if is_alive(&pid) || waited >= ORPHANS_TIMEOUT {
                        return Err(LockError::Taken { pid });
                    }
                    tokio::time::sleep(ORPHANS_POLL).await;
                    waited += ORPHANS_POLL;
                }
                Err(TryLockError::Error(error)) => return Err(LockError::File { path, error }),
            }
        }
        Self::signed(host, path)
    }

    /// Does the same without waiting.
    pub fn take_free(data: &Path) -> Result<Self, LockError> {
        let path = data.join("host.lock");
        let host = open(&path)?;
        match host.try_lock() {
            Ok(()) => Self::signed(host, path),
            Err(TryLockError::WouldBlock) => {
                let pid = fs::read_to_string(&path)
                    .unwrap_or_default()
                    .trim()
                    .to_owned();
                Err(LockError::Taken { pid })
            }
            Err(TryLockError::Error(error)) => Err(LockError::File { path, error }),
        }
    }

    /// Writes the process id into the file.
    fn signed(mut host: File, path: PathBuf) -> Result<Self, LockError> {
        let note = host
            .set_len(0)
            .and_then(|()| writeln!(host, "{}", std::process::id()));
        note.map_err(|error| LockError::File { path, error })?;
        Ok(Self { _host: host })
    }
}

/// Returns whether a process with this id exists.
fn is_alive(pid: &str) -> bool {
    let pid = pid.parse().ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// Returns the lock that cells inherit. Waits until the cells of an earlier host have released it,
/// and fails if they take too long.
pub async fn cells(data: &Path) -> Result<File, LockError> {
    let path = data.join("cells.lock");
    drop(open(&path)?);
    // Cells inherit it, so it must be read-only.
    let lock = File::open(&path).map_err(|error| LockError::File {
        path: path.clone(),
        error,
    })?;
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
    use super::*;

    /// The id of no process: the kernel's highest is 2²². Creating and ending a process instead would fork,
    /// and until it executes its program a child holds the locks of other tests.
    const DEAD: u32 = (1 << 22) + 1;

    #[tokio::test(start_paused = true)]
    async fn one_host_at_a_time_uses_a_directory() {
        let data = tempfile::TempDir::new().unwrap();
        let first = DataLock::take(data.path()).await.unwrap();
        let begun = tokio::time::Instant::now();
        let message = DataLock::take(data.path()).await.unwrap_err().to_string();
        let pid = std::process::id().to_string();
        assert!(
            message.contains(&pid) && message.contains("--data"),
            "{message}"
        );
        assert_eq!(begun.elapsed(), Duration::ZERO, "it lives");
        drop(first);
        DataLock::take(data.path()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_dead_host_was_starting_is_waited_for() {
        let data = tempfile::TempDir::new().unwrap();
        let left = DataLock::take(data.path()).await.unwrap();
        fs::write(data.path().join("host.lock"), DEAD.to_string()).unwrap();
        let stuck = DataLock::take(data.path()).await.unwrap_err();
        assert!(matches!(stuck, LockError::Taken { pid } if pid == DEAD.to_string()));
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
