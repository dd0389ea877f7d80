//! Moves committed pages from the write-ahead log into the main file, on a separate thread so that
//! commits need not wait. SQLite reuses the log only after every page has been moved, which never
//! happens while the writer is busy. When the log is long, the writer therefore moves the remaining
//! pages itself. Few remain by then.

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use host_engine::StoreError;
use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::{BUSY_TIMEOUT, connect, doing};

/// The thread is woken after this many more pages of 4 KiB.
const WAKE_PAGES: i32 = 2_048;

/// The length of the log, in pages, from which the writer moves the remaining pages itself.
const LOG_PAGES_MAX: i32 = 16_384;

/// How long emptying the log waits for readers.
const EMPTY_TIMEOUT: Duration = Duration::from_millis(500);

/// The checkpoint thread and its shared state.
pub(super) struct Checkpointer {
    /// The length of the log after the last commit, in pages.
    pages: Arc<AtomicI32>,
    wake_at: i32,
    rest_at: i32,
    /// Locked while pages are moved.
    turn: Arc<Mutex<()>>,
    /// The error of a failed checkpoint. Once it is set, no commit may follow.
    failure: Arc<OnceLock<String>>,
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Starts to make the checkpoints of `writer`, a connection to the file at `path`.
    pub(super) fn start(path: &Path, writer: &mut Connection) -> Result<Self, StoreError> {
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let pages = Arc::new(AtomicI32::new(0));
        let seen = Arc::clone(&pages);
        writer
            .wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
                seen.store(pages, Ordering::Relaxed);
                Ok(())
            }))
            .map_err(doing("take over the store's checkpoints"))?;
        let failure = Arc::new(OnceLock::new());
        let failed = Arc::clone(&failure);
        let turn = Arc::new(Mutex::new(()));
        let turns = Arc::clone(&turn);
        let (wake, woken) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("store-checkpoint".to_owned())
            .spawn(move || run(&connection, &woken, &turns, &failed))
            .map_err(|error| StoreError::Broken {
                operation: "start the store's checkpoint thread",
                message: error.to_string(),
            })?;
        Ok(Self {
            pages,
            wake_at: WAKE_PAGES,
            rest_at: LOG_PAGES_MAX,
            turn,
            failure,
            wake: Some(wake),
            thread: Some(thread),
        })
    }

    /// Keeps the log short. Call it after each commit of `writer`.
    ///
    /// An error does not affect batches that are already committed, but no further commit may
    /// follow.
    pub(super) fn after_commit(&mut self, writer: &Connection) -> Result<(), String> {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < self.wake_at - WAKE_PAGES {
            self.wake_at = WAKE_PAGES;
            self.rest_at = LOG_PAGES_MAX;
        }
        if pages >= self.rest_at {
            self.rest_at = pages.saturating_add(WAKE_PAGES);
            let _guard = self.turn.lock();
            checkpoint(writer)?;
        } else if pages >= self.wake_at {
            self.wake_at = pages.saturating_add(WAKE_PAGES);
            if let Some(wake) = &self.wake
                && let Err(TrySendError::Disconnected(())) = wake.try_send(())
            {
                return Err("the checkpoint thread has ended".to_owned());
            }
        }
        self.failure
            .get()
            .map_or(Ok(()), |error| Err(error.clone()))
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        drop(self.wake.take());
        if let Some(thread) = self.thread.take() {
            // An error of the thread is in `failure`, and no commit follows.
            let _ = thread.join();
        }
    }
}

fn run(connection: &Connection, woken: &Receiver<()>, turn: &Mutex<()>, failed: &OnceLock<String>) {
    while let Ok(()) = woken.recv() {
        let _guard = turn.lock();
        if let Err(error) = checkpoint(connection) {
            let _ = failed.set(error);
            return;
        }
    }
}

/// Moves all pages and truncates the log, unless a reader or another program is busy for too long.
pub(super) fn empty_log(connection: &Connection) -> Result<(), StoreError> {
    let wait = |time| {
        let set = connection.busy_timeout(time);
        set.map_err(doing("set up the store's connection"))
    };
    wait(EMPTY_TIMEOUT)?;
    move_pages(connection, "TRUNCATE").map_err(|message| StoreError::Broken {
        operation: "empty the store's log",
        message,
    })?;
    wait(BUSY_TIMEOUT)
}

/// Moves the pages that can be moved without waiting for other connections.
///
/// A full disk or a lock is not an error, because the log still holds everything. Any other failure
/// is an error, because a failed sync cannot be repeated.
fn checkpoint(connection: &Connection) -> Result<(), String> {
    move_pages(connection, "PASSIVE")
}

fn move_pages(connection: &Connection, mode: &str) -> Result<(), String> {
    let sql = format!("PRAGMA wal_checkpoint({mode})");
    let result = connection.query_row(&sql, [], |_| Ok(()));
    match result {
        Err(error)
            if !matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
            ) =>
        {
            Err(format!("cannot move the log into the store: {error}"))
        }
        _ => Ok(()),
    }
}
