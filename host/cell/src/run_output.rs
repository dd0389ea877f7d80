//! Unsent output of a run: log lines up to the log limit, and the latest progress. Host calls add to it; the
//! session takes from it.

use std::collections::VecDeque;
use std::sync::Arc;

use host_core::cell::{LINE_FIELDS_MAX, Level, LogLine, LogSource};
use host_core::json::JsonText;
use host_core::outcome::Progress;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::limits::{CellMemory, size};
use crate::meter::Used;

/// The longest line, in bytes. A longer line is truncated.
const LINE_BYTES_MAX: usize = 16 << 10;

/// After how many bytes [`RunOutput::take`] returns no more lines: far below the size of a frame.
const TAKE_BYTES: u64 = 1 << 20;

/// How many of the last bytes and lines of standard error are kept to explain a trap, in whole lines. The
/// last line is always kept.
const STDERR_BYTES_KEPT: usize = 16 << 10;
const STDERR_LINES_KEPT: usize = 256;

/// The longest message of a progress report, in bytes.
const PROGRESS_BYTES_MAX: usize = 1 << 10;

/// The unsent output of one run.
#[derive(Debug)]
pub(crate) struct RunOutput {
    started: Instant,
    /// The use of the run so far.
    pub(crate) used: Used,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    lines: VecDeque<LogLine>,
    /// The memory of the lines, charged to the cell.
    waiting_bytes: u64,
    memory: Arc<CellMemory>,
    bytes_left: u64,
    bytes_max: u64,
    dropped_lines: u64,
    progress: Option<Progress>,
    stdout: PartialLine,
    stderr: PartialLine,
    stderr_tail: Tail,
}

/// The last lines of standard error.
#[derive(Debug, Default)]
struct Tail {
    lines: VecDeque<String>,
    bytes: usize,
}

/// The beginning of a line whose end has not been written yet.
#[derive(Debug, Default)]
struct PartialLine {
    bytes: Vec<u8>,
    missing_bytes: u64,
}

/// Output to send to the host.
#[derive(Debug, Default)]
pub(crate) struct Unsent {
    pub(crate) lines: Vec<LogLine>,
    pub(crate) progress: Option<Progress>,
}

impl RunOutput {
    pub(crate) fn new(log_bytes_max: u64, memory: Arc<CellMemory>) -> Self {
        Self {
            started: Instant::now(),
            used: Used::default(),
            inner: Mutex::new(Inner {
                lines: VecDeque::new(),
                waiting_bytes: 0,
                memory,
                bytes_left: log_bytes_max,
                bytes_max: log_bytes_max,
                dropped_lines: 0,
                progress: None,
                stdout: PartialLine::default(),
                stderr: PartialLine::default(),
                stderr_tail: Tail::default(),
            }),
        }
    }

    fn at_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Adds a line from the `log` interface.
    pub(crate) fn write(&self, level: Level, message: String, fields: Vec<(String, JsonText)>) {
        let at_ms = self.at_ms();
        self.inner.lock().push(LogLine {
            at_ms,
            level,
            source: LogSource::Log,
            message,
            fields,
        });
    }

    /// Adds a warning of the host.
    pub(crate) fn warn(&self, message: String) {
        let at_ms = self.at_ms();
        self.inner.lock().push(LogLine {
            at_ms,
            level: Level::Warn,
            source: LogSource::Host,
            message,
            fields: Vec::new(),
        });
    }

    /// Adds bytes of standard output or standard error and splits them into lines.
    pub(crate) fn print(&self, source: LogSource, bytes: &[u8]) {
        let at_ms = self.at_ms();
        let mut inner = self.inner.lock();
        let mut pieces = bytes.split(|byte| *byte == b'\n');
        if let Some(first) = pieces.next() {
            inner.partial(source).add(first);
        }
        for piece in pieces {
            inner.end_line(source, at_ms);
            inner.partial(source).add(piece);
        }
    }

    /// Sets the progress. Replaces an earlier one that has not been sent.
    pub(crate) fn progress(&self, percent: Option<f32>, mut message: String) {
        truncate(&mut message, PROGRESS_BYTES_MAX);
        let percent = percent
            .filter(|percent| percent.is_finite())
            .map(|percent| percent.clamp(0.0, 100.0));
        self.inner.lock().progress = Some(Progress { percent, message });
    }

    /// Takes output to send, if there is any. If there are many lines it returns only the first; call it
    /// again for the others.
    pub(crate) fn take(&self) -> Option<Unsent> {
        let mut inner = self.inner.lock();
        if inner.lines.is_empty() && inner.progress.is_none() {
            return None;
        }
        Some(Unsent {
            lines: inner.first_lines(),
            progress: inner.progress.take(),
        })
    }

    /// Ends partial lines and adds a line about dropped lines. Call it once, after the guest has ended.
    pub(crate) fn finish(&self) {
        let at_ms = self.at_ms();
        let mut inner = self.inner.lock();
        for source in [LogSource::Stdout, LogSource::Stderr] {
            if !inner.partial(source).is_empty() {
                inner.end_line(source, at_ms);
            }
        }
        if inner.dropped_lines > 0 {
            let message = format!(
                "{} more lines were dropped: the log reached its limit of {}; raise log_kib in the manifest",
                inner.dropped_lines,
                size(inner.bytes_max)
            );
            inner.end(LogLine {
                at_ms,
                level: Level::Warn,
                source: LogSource::Host,
                message,
                fields: Vec::new(),
            });
        }
    }

    /// Returns the last lines of standard error, oldest first.
    pub(crate) fn stderr_tail(&self) -> Vec<String> {
        self.inner
            .lock()
            .stderr_tail
            .lines
            .iter()
            .cloned()
            .collect()
    }
}

impl Inner {
    const fn partial(&mut self, source: LogSource) -> &mut PartialLine {
        match source {
            LogSource::Stderr => &mut self.stderr,
            LogSource::Log | LogSource::Stdout | LogSource::Host => &mut self.stdout,
        }
    }

    fn end_line(&mut self, source: LogSource, at_ms: u64) {
        let message = self.partial(source).take();
        let level = if source == LogSource::Stderr {
            self.stderr_tail.push(message.clone());
            Level::Warn
        } else {
            Level::Info
        };
        self.push(LogLine {
            at_ms,
            level,
            source,
            message,
            fields: Vec::new(),
        });
    }

    fn first_lines(&mut self) -> Vec<LogLine> {
        let mut bytes = 0;
        let count = self
            .lines
            .iter()
            .take_while(|line| {
                let room = bytes < TAKE_BYTES;
                bytes += line.cost();
                room
            })
            .count();
        let taken: Vec<LogLine> = self.lines.drain(..count).collect();
        let cost = taken.iter().map(LogLine::cost).sum();
        self.memory.give_back(cost);
        self.waiting_bytes -= cost;
        taken
    }

    /// Adds the last line, which the host writes at no charge to the guest.
    fn end(&mut self, line: LogLine) {
        let cost = line.cost();
        self.memory.charge(cost);
        self.waiting_bytes += cost;
        self.lines.push_back(line);
    }

    /// Adds a line, truncated if it is too long, or drops it and counts it. After the first dropped line
    /// all later lines are dropped, so that the log has no gaps.
    fn push(&mut self, mut line: LogLine) {
        truncate(&mut line.message, LINE_BYTES_MAX);
        line.fields.truncate(LINE_FIELDS_MAX);
        for (key, value) in &mut line.fields {
            truncate(key, LINE_BYTES_MAX / LINE_FIELDS_MAX);
            if value.0.len() > LINE_BYTES_MAX {
                let mut text = value.plain().into_owned();
                truncate(&mut text, LINE_BYTES_MAX);
                *value = JsonText::string(&text);
            }
        }
        let cost = line.cost();
        if self.dropped_lines > 0 || cost > self.bytes_left || self.memory.take(cost).is_err() {
            self.dropped_lines += 1;
            return;
        }
        self.bytes_left -= cost;
        self.waiting_bytes += cost;
        self.lines.push_back(line);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.memory.give_back(self.waiting_bytes);
    }
}

impl Tail {
    fn push(&mut self, line: String) {
        self.bytes += line.len();
        self.lines.push_back(line);
        while self.lines.len() > 1
            && (self.bytes > STDERR_BYTES_KEPT || self.lines.len() > STDERR_LINES_KEPT)
            && let Some(first) = self.lines.pop_front()
        {
            self.bytes -= first.len();
        }
    }
}

impl PartialLine {
    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn add(&mut self, bytes: &[u8]) {
        let room = LINE_BYTES_MAX.saturating_sub(self.bytes.len());
        let kept = bytes.len().min(room);
        self.bytes.extend_from_slice(&bytes[..kept]);
        self.missing_bytes += (bytes.len() - kept) as u64;
    }

    fn take(&mut self) -> String {
        let mut line = String::from_utf8_lossy(&self.bytes).into_owned();
        self.bytes.clear();
        if self.missing_bytes > 0 {
            line.push_str(&truncation_mark(self.missing_bytes));
            self.missing_bytes = 0;
        }
        if line.ends_with('\r') {
            line.pop();
        }
        line
    }
}

fn truncation_mark(bytes: u64) -> String {
    format!(" … ({bytes} more bytes)")
}

/// Truncates a text to about `bytes_max` bytes and appends how many are missing.
pub(crate) fn truncate(text: &mut String, bytes_max: usize) {
    // Leave room for the mark of a text that was already truncated.
    if text.len() <= bytes_max + 64 {
        return;
    }
    let mut end = bytes_max;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mark = truncation_mark((text.len() - end) as u64);
    text.truncate(end);
    text.push_str(&mark);
}

#[cfg(test)]
mod tests;
