//! The logs of guests: lines, and the traits of every backend. No job depends on them, so they are synced
//! lazily, and the oldest lines are dropped first when there are too many.

use host_core::cell::{Level, LogSource};
use host_core::id::JobId;
use host_core::json::JsonText;
use host_core::time::Time;
use host_engine::StoreError;
use serde_json::value::RawValue;

/// The default limit on the size of the lines and their index, in bytes.
pub const LOG_BYTES_MAX: u64 = 1 << 30;

/// How many of the oldest lines one statement drops at most.
pub(crate) const DROP_LINES: u32 = 10_000;

/// The levels. Stores hold a level's index in this list.
pub(crate) const LEVELS: [Level; 5] = [
    Level::Trace,
    Level::Debug,
    Level::Info,
    Level::Warn,
    Level::Error,
];

/// The sources, indexed in the same way.
pub(crate) const SOURCES: [LogSource; 4] = [
    LogSource::Log,
    LogSource::Stdout,
    LogSource::Stderr,
    LogSource::Host,
];

/// One line of a job's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The job that wrote the line.
    pub job: JobId,
    /// The number of the attempt.
    pub attempt: u32,
    /// When the line was written.
    pub at: Time,
    /// The severity.
    pub level: Level,
    /// Where the line came from: the `log` interface, an output stream or the host.
    pub source: LogSource,
    /// The text.
    pub message: String,
    /// Structured fields, in the order in which the guest gave them. Each value is JSON.
    pub fields: Vec<(String, JsonText)>,
}

impl LogEntry {
    /// Returns the fields as the stores keep them, `[["rows",7]]`; `None` if there are none.
    pub(crate) fn fields_json(&self) -> serde_json::Result<Option<String>> {
        if self.fields.is_empty() {
            return Ok(None);
        }
        let pairs = self.fields.iter().map(|(name, value)| {
            let raw: &RawValue = serde_json::from_str(value.as_str())?;
            Ok((name, raw))
        });
        let pairs = pairs.collect::<serde_json::Result<Vec<_>>>()?;
        serde_json::to_string(&pairs).map(Some)
    }
}

/// Reads fields as the stores keep them.
pub(crate) fn fields(json: &str) -> serde_json::Result<Vec<(String, JsonText)>> {
    let pairs: Vec<(String, Box<RawValue>)> = serde_json::from_str(json)?;
    let pairs = pairs.into_iter();
    Ok(pairs
        .map(|(name, raw)| (name, JsonText(String::from(Box::<str>::from(raw)))))
        .collect())
}

/// A part of one job's log, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPage {
    /// The lines with their numbers, which increase. To follow a log, pass the last number as
    /// `after`.
    pub items: Vec<(u64, LogEntry)>,
    /// Where the next page starts. `None` if there were no more lines when this page was read.
    pub next: Option<u64>,
}

impl LogPage {
    /// Makes a page of at most `limit` of the lines. One more line means that another page follows.
    pub(crate) fn of(mut items: Vec<(u64, LogEntry)>, limit: usize) -> Self {
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().map(|(n, _)| *n).filter(|_| more);
        Self { items, next }
    }
}

/// Writes logs.
pub trait LogWriter: Send {
    /// Adds lines at the end, and drops the oldest if the limit is exceeded. After an error, the first of them may be there.
    fn append(&mut self, entries: Vec<LogEntry>) -> Result<(), StoreError>;

    /// Removes the lines of jobs that were purged.
    fn forget(&mut self, jobs: &[JobId]) -> Result<(), StoreError>;

    /// Opens a reader. Each of its calls sees all lines that were appended before the call.
    fn reader(&self) -> Result<Box<dyn LogReader>, StoreError>;
}

/// Reads logs. It never blocks the writer.
pub trait LogReader: Send {
    /// Returns at most `limit` lines of a job that follow the line with number `after`.
    fn page(&self, job: JobId, after: Option<u64>, limit: u32) -> Result<LogPage, StoreError>;
}
