//! Carries the logs of guests from the dispatch loop, which never waits, to their store: one thread
//! writes, and several readers serve the API.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use host_core::cell::{Level, LogLine, LogSource};
use host_core::id::JobId;
use host_core::port;
use host_core::time::Time;
use host_dispatch::logged::{Gaps, Logged, Logs, PendingLog, Progress};
use host_dispatch::readers::Readers;
use host_engine::StoreError;
use host_store::logs::{LogEntry, LogPage, LogReader, LogWriter};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::api::ports;

/// The most messages written in one transaction.
const BATCH_MAX: usize = 256;

/// The most pages read at a time.
const LOG_READERS: usize = 2;

/// How long a reader waits for lines that were sent but are not written yet.
const WRITING_MAX: Duration = Duration::from_secs(2);

/// Receives log lines of foreign workers about our jobs, until it is closed. The log thread ends when the
/// last sender is gone.
pub struct ForeignLogs(Mutex<Option<Logs>>);

impl ForeignLogs {
    pub fn new(logs: Logs) -> Self {
        Self(Mutex::new(Some(logs)))
    }

    /// Stops keeping lines.
    pub fn close(&self) {
        *self.0.lock() = None;
    }
}

impl port::JobLogs for ForeignLogs {
    fn keep(&self, job: JobId, attempt: u32, started_at: Time, lines: Vec<LogLine>) -> bool {
        let logs = self.0.lock();
        let Some(logs) = &*logs else { return false };
        logs.send(Logged::Lines {
            job,
            attempt,
            started_at,
            lines,
        });
        true
    }
}

/// Reads the logs for the API.
pub struct JobLogs {
    progress: Progress,
    readers: Readers<Box<dyn LogReader>>,
}

/// Starts the thread that writes logs. It ends when all senders are gone and everything is written.
/// If a log cannot be written, its lines are lost and the loss is reported; jobs are not affected.
/// For each gap in `gaps` it writes a line into the affected log, after the lines that came before.
pub fn spawn(
    mut store: Box<dyn LogWriter>,
    mut waiting: mpsc::Receiver<PendingLog>,
    (gaps, progress): (Gaps, Progress),
) -> Result<(JobLogs, JoinHandle<()>), StoreError> {
    let readers = (0..LOG_READERS)
        .map(|_| store.reader())
        .collect::<Result<_, _>>()?;
    let done = progress.clone();
    let write = move || {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        while waiting.blocking_recv_many(&mut batch, BATCH_MAX) > 0 {
            let messages = batch.len() as u64;
            let mut written = write(&mut *store, batch.drain(..));
            if waiting.is_empty() {
                written = written.and_then(|()| write_gaps(&mut *store, &gaps));
            }
            if let Err(error) = written {
                tracing::error!(%error, "log lines of jobs are lost");
            }
            done.add_written(messages);
        }
    };
    let thread = std::thread::Builder::new()
        .name("logs".to_owned())
        .spawn(write)
        .map_err(|error: io::Error| StoreError::Broken {
            operation: "start the thread that writes logs",
            message: error.to_string(),
        })?;
    // Each reads one page.
    let readers = Readers::new(readers, |_| Arc::new(|| ()));
    Ok((JobLogs { progress, readers }, thread))
}

fn write(
    store: &mut dyn LogWriter,
    batch: impl Iterator<Item = PendingLog>,
) -> Result<(), StoreError> {
    let mut entries = Vec::new();
    let mut purged = Vec::new();
    let mut rooms = Vec::new();
    for PendingLog { logged, room } in batch {
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

/// Notes in each log how much of it was dropped.
fn write_gaps(store: &mut dyn LogWriter, gaps: &Gaps) -> Result<(), StoreError> {
    let entries: Vec<LogEntry> = gaps.take().into_iter().map(|gap| LogEntry {
        job: gap.job,
        attempt: gap.attempt,
        at: gap.at,
        level: Level::Warn,
        source: LogSource::Host,
        message: format!(
            "{} lines from here on were dropped: logs arrived faster than they could be written",
            gap.lines
        ),
        fields: Vec::new(),
    }).collect();
    if entries.is_empty() {
        return Ok(());
    }
    store.append(entries)
}

impl ports::Logs for JobLogs {
    fn page(
        &self,
        job: JobId,
        after: Option<u64>,
        limit: u32,
    ) -> BoxFuture<'_, Result<LogPage, StoreError>> {
        async move {
            // A client that sees the end of a job also sees its last lines, unless the disk is too slow.
            let written = self.progress.all_written();
            let _ = tokio::time::timeout(WRITING_MAX, written).await;
            let page = self
                .readers
                .ask(move |reader| reader.page(job, after, limit));
            page.await
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use host_core::cell::LogLine;
    use host_core::time::Time;
    use host_store::sqlite::logs::LogStore;
    use tempfile::TempDir;

    use super::*;
    use host_dispatch::logged::LOGGED_WAITING_MAX;

    fn line(message: &str) -> Logged {
        Logged::Lines {
            job: "01990f3c-0000-7000-8000-000000000000".parse().unwrap(),
            attempt: 2,
            started_at: Time(1_000),
            lines: vec![LogLine {
                at_ms: 7,
                level: Level::Info,
                source: LogSource::Log,
                message: message.to_owned(),
                fields: Vec::new(),
            }],
        }
    }

    #[tokio::test]
    async fn a_page_has_all_earlier_lines() {
        let folder = TempDir::new().unwrap();
        let store = LogStore::open(&folder.path().join("logs.db")).unwrap();
        let (sender, waiting) = Logs::channel();
        let (logs, thread) =
            spawn(Box::new(store), waiting, (sender.gaps(), sender.progress())).unwrap();
        let Logged::Lines { job, .. } = line("") else {
            unreachable!()
        };
        for n in 1..=200 {
            sender.send(line("said"));
            let page = ports::Logs::page(&logs, job, None, 1_000).await.unwrap();
            assert_eq!(page.items.len(), n);
        }
        drop(sender);
        thread.join().unwrap();
    }

    #[test]
    fn a_log_says_how_many_of_its_lines_were_dropped() {
        let folder = TempDir::new().unwrap();
        let store = LogStore::open(&folder.path().join("logs.db")).unwrap();
        let reader = store.reader().unwrap();
        let (sender, waiting) = Logs::channel();
        for _ in 0..LOGGED_WAITING_MAX {
            sender.send(line("kept"));
        }
        sender.send(line("dropped"));
        sender.send(line("dropped"));
        let (_, thread) =
            spawn(Box::new(store), waiting, (sender.gaps(), sender.progress())).unwrap();
        drop(sender);
        thread.join().unwrap();
        let Logged::Lines { job, .. } = line("") else {
            unreachable!()
        };
        let page = reader
            .page(job, Some(LOGGED_WAITING_MAX as u64), 10)
            .unwrap();
        let said: Vec<_> = page
            .items
            .iter()
            .map(|(_, line)| (line.attempt, line.at, line.message.as_str()))
            .collect();
        let text =
            "2 lines from here on were dropped: logs arrived faster than they could be written";
        assert_eq!(said, [(2, Time(1_007), text)]);
    }
}
