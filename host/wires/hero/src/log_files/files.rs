//! The thread that opens and writes log files, so that nothing else waits for their disk. If the
//! disk is too slow, lines are dropped, with a note in the file.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use host_core::cell::LogLine;
use host_core::time::Time;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::root::{LogFileError, LogRoot};
use super::text;

/// The most concurrent executions with a log file. A job that needs another one waits.
const OPEN_MAX: usize = 256;

/// The most bytes of one job, over all attempts.
const JOB_BYTES_MAX: u64 = 16 << 20;

/// How many requests may wait for the thread.
const WAITING_MAX: usize = 4_096;

/// The most memory of the lines that wait, in bytes.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// For how many jobs the bytes written by earlier attempts are remembered.
const REMEMBERED_MAX: usize = 1_024;

/// The memory for a line besides its text, in bytes.
const LINE_BYTES: usize = 128;

/// Called with the result of opening a file, on the thread that opened it.
type OpenCallback = Box<dyn FnOnce(Result<LogFile, LogFileError>) + Send>;

enum Request {
    Open {
        log_path: String,
        job: String,
        attempt: u32,
        files: LogFiles,
        room: OwnedSemaphorePermit,
        then: OpenCallback,
    },
    Write {
        file: Arc<Open>,
        started_at: Time,
        lines: Vec<LogLine>,
        _room: Option<OwnedSemaphorePermit>,
    },
    Flush(oneshot::Sender<()>),
}

/// Opens log files below one folder and writes them. Cloning shares the thread.
#[derive(Clone)]
pub(crate) struct LogFiles {
    requests: mpsc::Sender<Request>,
    open: Arc<Semaphore>,
    room: Arc<Semaphore>,
}

/// The log file of one execution. It is opened anew for each write, so that it may be renamed or removed
/// between writes, as `logrotate` does: a new one is made. Dropping this ends it.
pub(crate) struct LogFile {
    open: Arc<Open>,
    files: LogFiles,
}

struct Open {
    log_path: String,
    job: String,
    written: Mutex<LogExtent>,
    /// How many lines were dropped.
    missed: AtomicU64,
    _room: OwnedSemaphorePermit,
}

/// How much of a job's log is written.
#[derive(Clone, Copy, Debug, Default)]
struct LogExtent {
    bytes: u64,
    /// Nothing more is written: the job reached its limit, or the disk returned an error.
    over: bool,
}

impl LogFiles {
    /// Makes the folder `dir` if it is missing, and starts the thread that writes below it.
    pub(crate) fn below(dir: &Path) -> io::Result<Self> {
        let root = LogRoot::new(dir);
        root.make()?;
        Self::start(root)
    }

    /// Starts the thread; it ends when the last [`LogFiles`] and [`LogFile`] are dropped.
    fn start(folder: LogRoot) -> io::Result<Self> {
        let (requests, waiting) = mpsc::channel(WAITING_MAX);
        let files = Self {
            requests,
            open: Arc::new(Semaphore::new(OPEN_MAX)),
            room: Arc::new(Semaphore::new(WAITING_BYTES_MAX)),
        };
        std::thread::Builder::new()
            .name("log-files".to_owned())
            .spawn(move || work(&folder, waiting))?;
        Ok(files)
    }

    /// Opens the log file of an attempt, counted from 1, and calls `then` on another thread.
    /// Returns `false` if there is no room; then `then` is not called.
    pub(crate) fn open(
        &self,
        log_path: &str,
        job: &str,
        attempt: u32,
        then: impl FnOnce(Result<LogFile, LogFileError>) + Send + 'static,
    ) -> bool {
        let Ok(room) = Arc::clone(&self.open).try_acquire_owned() else {
            return false;
        };
        let request = Request::Open {
            log_path: log_path.to_owned(),
            job: job.to_owned(),
            attempt,
            files: self.clone(),
            room,
            then: Box::new(then),
        };
        self.requests.try_send(request).is_ok()
    }

    /// Waits until all earlier requests are done, or `timeout` has passed. Cancel safe.
    pub(crate) async fn flush(&self, timeout: Duration) {
        let (done, flushed) = oneshot::channel();
        let flush = async {
            if self.requests.send(Request::Flush(done)).await.is_ok() {
                // If the thread is gone, there is nothing left to write.
                let _ = flushed.await;
            }
        };
        if tokio::time::timeout(timeout, flush).await.is_err() {
            tracing::warn!("log files were not written in time; lines of jobs are lost");
        }
    }
}

impl LogFile {
    /// Queues lines for writing, or counts them as dropped. Never waits.
    pub(crate) fn write(&self, started_at: Time, lines: &[LogLine]) {
        let sizes = lines.iter().map(|line| {
            let fields: usize = line
                .fields
                .iter()
                .map(|(name, value)| name.len() + value.0.len())
                .sum();
            LINE_BYTES + line.message.len() + fields
        });
        let bytes = u32::try_from(sizes.sum::<usize>()).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.files.room).try_acquire_many_owned(bytes);
        let passed_on = room.is_ok_and(|room| {
            let request = Request::Write {
                file: Arc::clone(&self.open),
                started_at,
                lines: lines.to_vec(),
                _room: Some(room),
            };
            self.files.requests.try_send(request).is_ok()
        });
        if !passed_on {
            let lines = lines.len() as u64;
            self.open.missed.fetch_add(lines, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for LogFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogFile({})", self.open.job)
    }
}

impl Drop for LogFile {
    /// Lets the thread record how many lines were dropped.
    fn drop(&mut self) {
        let file = Arc::clone(&self.open);
        let _ = self.files.requests.try_send(Request::Write {
            file,
            started_at: Time(0),
            lines: Vec::new(),
            _room: None,
        });
    }
}

/// Carries out requests until all senders are gone.
fn work(root: &LogRoot, mut waiting: mpsc::Receiver<Request>) {
    let mut before = Before::default();
    let mut last_at = Time(0);
    while let Some(request) = waiting.blocking_recv() {
        match request {
            Request::Open {
                log_path,
                job,
                attempt,
                files,
                room,
                then,
            } => {
                let opened = root.append(&log_path).map(|_| LogFile {
                    open: Arc::new(Open {
                        log_path,
                        written: Mutex::new(before.take(&job, attempt)),
                        job,
                        missed: AtomicU64::new(0),
                        _room: room,
                    }),
                    files,
                });
                then(opened);
            }
            Request::Write {
                file,
                started_at,
                lines,
                ..
            } => {
                let end = lines.last();
                last_at = end.map_or(last_at, |line| started_at.plus_ms(line.at_ms));
                let written = file.write(root, started_at, &lines, last_at);
                if lines.is_empty() {
                    before.keep(&file.job, written);
                }
            }
            Request::Flush(done) => {
                // The caller may have stopped waiting.
                let _ = done.send(());
            }
        }
    }
}

impl Open {
    /// Writes whole lines in one call, so that lines of other writers do not split them.
    fn write(&self, root: &LogRoot, started_at: Time, lines: &[LogLine], now: Time) -> LogExtent {
        let mut written = self.written.lock();
        if written.over {
            return *written;
        }
        let missed = self.missed.swap(0, Ordering::Relaxed);
        let mut buffer = String::new();
        if missed > 0 {
            let words = format!("{missed} lines are missing here: the disk was too slow");
            text::note(&mut buffer, &self.job, now, &words);
        }
        for line in lines {
            let whole = buffer.len();
            text::add(&mut buffer, &self.job, started_at, line);
            if written.bytes + buffer.len() as u64 > JOB_BYTES_MAX {
                buffer.truncate(whole);
                let words = format!(
                    "the rest is left out: a job may write at most {JOB_BYTES_MAX} bytes here"
                );
                text::note(&mut buffer, &self.job, now, &words);
                written.over = true;
                break;
            }
        }
        if buffer.is_empty() {
            return *written;
        }
        written.bytes += buffer.len() as u64;
        let file = root.append(&self.log_path);
        let done = file.and_then(|mut file| {
            let done = file.write_all(buffer.as_bytes());
            done.map_err(LogFileError::System)
        });
        if let Err(error) = done {
            written.over = true;
            tracing::warn!(job = self.job, %error, "cannot write the log file of a job");
        }
        *written
    }
}

/// The bytes that earlier attempts have written, for the last [`REMEMBERED_MAX`] jobs.
#[derive(Default)]
struct Before {
    jobs: BTreeMap<String, LogExtent>,
    order: VecDeque<String>,
}

impl Before {
    fn take(&mut self, job: &str, attempt: u32) -> LogExtent {
        if attempt == 1 {
            return LogExtent::default();
        }
        self.jobs.get(job).copied().unwrap_or_default()
    }

    fn keep(&mut self, job: &str, written: LogExtent) {
        if self.jobs.insert(job.to_owned(), written).is_some() {
            return;
        }
        self.order.push_back(job.to_owned());
        if self.order.len() > REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.jobs.remove(&oldest);
        }
    }
}
