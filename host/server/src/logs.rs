//! Guests' logs between the dispatch loop, which passes them on without waiting, and their file: a
//! thread that writes, and readers for the API.

use std::io;
use std::thread::JoinHandle;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use host_core::id::JobId;
use host_store::StoreError;
use host_store::logs::{LogEntry, LogPage, LogReader, LogStore};
use tokio::sync::mpsc;

use crate::api::ports::Logs;
use crate::dispatch::logged::{Logged, Waiting};
use crate::dispatch::readers::Readers;

/// How many messages are written in one transaction.
const BATCH_MAX: usize = 256;

/// How many pages are read at once.
const LOG_READERS: usize = 2;

/// Reads the log file for the API.
pub struct JobLogs {
    readers: Readers<LogReader>,
}

/// Starts the thread that writes logs; it ends when the other end of `waiting` is gone and all of
/// it is written. A log that cannot be written is reported and lost: no job is.
pub fn spawn(
    mut store: LogStore,
    mut waiting: mpsc::Receiver<Waiting>,
) -> Result<(JobLogs, JoinHandle<()>), StoreError> {
    let readers = (0..LOG_READERS)
        .map(|_| store.reader())
        .collect::<Result<_, _>>()?;
    let write = move || {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        while waiting.blocking_recv_many(&mut batch, BATCH_MAX) > 0 {
            if let Err(error) = write(&mut store, batch.drain(..)) {
                tracing::error!(%error, "log lines of jobs are lost");
            }
        }
    };
    let thread = std::thread::Builder::new()
        .name("logs".to_owned())
        .spawn(write)
        .map_err(|error: io::Error| StoreError::Broken {
            operation: "start the thread that writes logs",
            message: error.to_string(),
        })?;
    let readers = Readers::new(readers);
    Ok((JobLogs { readers }, thread))
}

fn write(store: &mut LogStore, batch: impl Iterator<Item = Waiting>) -> Result<(), StoreError> {
    let mut entries = Vec::new();
    let mut purged = Vec::new();
    let mut rooms = Vec::new();
    for Waiting { logged, room } in batch {
        rooms.push(room);
        match logged {
            Logged::Lines {
                job,
                attempt,
                started_at,
                lines,
            } => entries.extend(lines.into_iter().map(|line| LogEntry {
                job,
                attempt,
                at: started_at.plus_ms(line.at_ms),
                level: line.level,
                source: line.source,
                message: line.message,
                fields: line.fields,
            })),
            Logged::Purged(job) => purged.push(job),
        }
    }
    if !entries.is_empty() {
        store.append(entries)?;
    }
    if !purged.is_empty() {
        store.forget(&purged)?;
    }
    drop(rooms);
    Ok(())
}

impl Logs for JobLogs {
    fn page(
        &self,
        job: JobId,
        after: Option<u64>,
        limit: u32,
    ) -> BoxFuture<'_, Result<LogPage, StoreError>> {
        let page = self
            .readers
            .ask(move |reader| reader.page(job, after, limit));
        page.boxed()
    }
}
