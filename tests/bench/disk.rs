//! The bare disk: synced appends one after the other, and many that share syncs.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::numbers::{count, median, ms};

const RECORD_BYTES: usize = 200;

/// The state of the threads' commits.
#[derive(Default)]
struct Commits {
    written: u64,
    synced: u64,
    is_syncing: bool,
}

fn append_to(path: &Path) -> Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("cannot open {}", path.display()))
}

/// Returns the median time of an append with fdatasync, in milliseconds.
pub(crate) fn sync_ms(path: &Path, syncs: usize) -> Result<f64> {
    let mut file = append_to(path)?;
    let mut times = Vec::with_capacity(syncs);
    for _ in 0..syncs {
        let start = Instant::now();
        file.write_all(&[b'x'; RECORD_BYTES])?;
        file.sync_data()?;
        times.push(ms(start.elapsed()));
    }
    Ok(median(&times))
}

/// Has `threads` append records and wait until each is synced. A thread that finds no sync in progress syncs
/// for all. Returns records per second.
pub(crate) fn group_commit_rate(path: &Path, threads: usize, span: Duration) -> Result<f64> {
    let file = append_to(path)?;
    let commits = Mutex::new(Commits::default());
    let synced = Condvar::new();
    let start = Instant::now();
    let done: Result<Vec<usize>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| -> Result<usize> {
                    let mut done = 0;
                    while start.elapsed() < span {
                        commit(&file, &commits, &synced)?;
                        done += 1;
                    }
                    Ok(done)
                })
            })
            .collect();
        let joined = workers.into_iter().map(|worker| {
            let ended = worker.join();
            ended.unwrap_or_else(|_| anyhow::bail!("a thread that writes panicked"))
        });
        joined.collect()
    });
    let records: usize = done?.into_iter().sum();
    Ok(count(records) / start.elapsed().as_secs_f64())
}

fn commit(mut file: &File, commits: &Mutex<Commits>, synced: &Condvar) -> Result<()> {
    let mut state = commits.lock().unwrap_or_else(PoisonError::into_inner);
    file.write_all(&[b'x'; RECORD_BYTES])?;
    state.written += 1;
    let mine = state.written;
    while state.synced < mine {
        if state.is_syncing {
            state = synced.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        }
        state.is_syncing = true;
        let target = state.written;
        drop(state);
        let result = file.sync_data();
        state = commits.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_syncing = false;
        // Waiting threads must not wait for a sync that failed.
        state.synced = target;
        synced.notify_all();
        result.context("cannot sync")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tempfile::TempDir;

    use super::{RECORD_BYTES, group_commit_rate, sync_ms};

    #[test]
    fn every_record_is_written() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("raw");
        assert!(sync_ms(&path, 3).unwrap() > 0.0);
        assert_eq!(
            std::fs::metadata(&path).unwrap().len(),
            3 * RECORD_BYTES as u64
        );
        let rate = group_commit_rate(&path, 4, Duration::from_millis(20)).unwrap();
        assert!(rate > 0.0);
        let bytes = std::fs::metadata(&path).unwrap().len();
        assert_eq!(bytes % RECORD_BYTES as u64, 0);
    }
}
