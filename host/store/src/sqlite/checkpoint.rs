//! Moves committed pages from the write-ahead log into the main file, on a thread of its own so that
//! commits need not wait. SQLite starts the log again from its beginning only when nothing is left
//! to move, which never happens while the writer is busy. So once the log is long, the writer moves
//! the rest itself; it is little by then.

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::{connect, doing};
use crate::error::StoreError;

/// After how many more pages (of 4 KiB) the thread is woken.
const WAKE_PAGES: i32 = 2_048;

/// From how many pages on the writer moves the rest.
const LOG_PAGES_MAX: i32 = 16_384;

/// The thread and what the writer knows of the log.
pub(super) struct Checkpointer {
    /// How long the log is since the last commit, in pages.
    pages: Arc<AtomicI32>,
    wake_at: i32,
    rest_at: i32,
    /// Held while pages are moved.
    turn: Arc<Mutex<()>>,
    /// Why no further commit may follow, once a checkpoint has failed.
    failure: Arc<OnceLock<String>>,
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    /// Takes over the checkpoints of `writer`, a connection to the file at `path`.
    pub(super) fn start(path: &Path, writer: &mut Connection) -> Result<Self, StoreError> {
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let pages = Arc::new(AtomicI32::new(0));
        let seen = Arc::clone(&pages);
        writer
            .wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
                seen.store(pages, Ordering::Relaxed);
                Ok(())
            }))
            .map_err(doing("take the store's checkpoints over"))?;
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

    /// Keeps the log short after a commit of `writer`.
    ///
    /// Errors concern no batch that is committed, but none may follow.
    pub(super) fn after_commit(&mut self, writer: &Connection) -> Result<(), String> {
        let pages = self.pages.load(Ordering::Relaxed);
        if pages < self.wake_at - WAKE_PAGES {
            self.wake_at = WAKE_PAGES;
            self.rest_at = LOG_PAGES_MAX;
        }
        if pages >= self.rest_at {
            self.rest_at = pages.saturating_add(WAKE_PAGES);
            let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
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
            // Its error, if any, is in `failure`, and no commit follows.
            let _ = thread.join();
        }
    }
}

fn run(connection: &Connection, woken: &Receiver<()>, turn: &Mutex<()>, failed: &OnceLock<String>) {
    while let Ok(()) = woken.recv() {
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = checkpoint(connection) {
            let _ = failed.set(error);
            return;
        }
    }
}

/// Moves what can be moved without waiting for anyone.
///
/// A full disk or a lock is no error: the log still holds everything. Any other failure is one,
/// because a sync that failed once cannot be repeated.
fn checkpoint(connection: &Connection) -> Result<(), String> {
    let result = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
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
