//! What a run has said and nobody has been told yet: log lines within their quota, the latest
//! progress. Filled by host calls, emptied by the session.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use host_core::cell::{Level, LogLine, LogSource};
use host_core::outcome::Progress;
use tokio::time::Instant;

/// The longest line, in bytes; the rest of a longer one is cut off.
const LINE_BYTES_MAX: usize = 16 << 10;

/// The most fields of a line.
const FIELDS_MAX: usize = 64;

/// What a line costs beyond its text, in bytes.
const LINE_OVERHEAD_BYTES: u64 = 32;

/// From which size on what is told at once is complete, in bytes: far below that of a frame, whatever
/// the log's limit.
const TOLD_BYTES: u64 = 1 << 20;

/// How many of the last lines of standard error are remembered for the report of a trap.
const STDERR_LINES_KEPT: usize = 12;

/// The longest message of a progress, in bytes.
const PROGRESS_BYTES_MAX: usize = 1 << 10;

/// What one run has said.
#[derive(Debug)]
pub(crate) struct Said {
    started: Instant,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    lines: VecDeque<LogLine>,
    bytes_left: u64,
    bytes_max: u64,
    dropped_lines: u64,
    progress: Option<Progress>,
    stdout: Partial,
    stderr: Partial,
    stderr_tail: VecDeque<String>,
}

/// A line that has no end yet.
#[derive(Debug, Default)]
struct Partial {
    bytes: Vec<u8>,
    cut_bytes: u64,
}

/// What there is to tell.
#[derive(Debug, Default)]
pub(crate) struct News {
    pub(crate) lines: Vec<LogLine>,
    pub(crate) progress: Option<Progress>,
}

impl Said {
    pub(crate) fn new(log_bytes_max: u64) -> Self {
        Self {
            started: Instant::now(),
            inner: Mutex::new(Inner {
                lines: VecDeque::new(),
                bytes_left: log_bytes_max,
                bytes_max: log_bytes_max,
                dropped_lines: 0,
                progress: None,
                stdout: Partial::default(),
                stderr: Partial::default(),
                stderr_tail: VecDeque::new(),
            }),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Takes a line of the `log` interface.
    pub(crate) fn write(&self, level: Level, message: String, fields: Vec<(String, String)>) {
        let at_ms = self.at_ms();
        self.inner().push(LogLine {
            at_ms,
            level,
            source: LogSource::Log,
            message,
            fields,
        });
    }

    /// Takes bytes of standard output or standard error and makes lines of them.
    pub(crate) fn print(&self, source: LogSource, bytes: &[u8]) {
        let at_ms = self.at_ms();
        let mut inner = self.inner();
        let mut pieces = bytes.split(|byte| *byte == b'\n');
        if let Some(first) = pieces.next() {
            inner.partial(source).add(first);
        }
        for piece in pieces {
            inner.end_line(source, at_ms);
            inner.partial(source).add(piece);
        }
    }

    /// Takes a progress; it replaces one that nobody has been told.
    pub(crate) fn progress(&self, percent: Option<f32>, mut message: String) {
        cut(&mut message, PROGRESS_BYTES_MAX);
        let percent = percent
            .filter(|percent| percent.is_finite())
            .map(|percent| percent.clamp(0.0, 100.0));
        self.inner().progress = Some(Progress { percent, message });
    }

    /// Returns what there is to tell, if anything; of many lines the first, the others next time.
    pub(crate) fn take(&self) -> Option<News> {
        let mut inner = self.inner();
        if inner.lines.is_empty() && inner.progress.is_none() {
            return None;
        }
        Some(News {
            lines: inner.first_lines(),
            progress: inner.progress.take(),
        })
    }

    /// Ends the last lines and adds how much was dropped. Called once, when the guest is gone.
    pub(crate) fn finish(&self) {
        let at_ms = self.at_ms();
        let mut inner = self.inner();
        for source in [LogSource::Stdout, LogSource::Stderr] {
            if !inner.partial(source).is_empty() {
                inner.end_line(source, at_ms);
            }
        }
        if inner.dropped_lines > 0 {
            let message = format!(
                "{} more lines were dropped: the log is limited to {} bytes (log_kib in the manifest)",
                inner.dropped_lines, inner.bytes_max
            );
            inner.lines.push_back(LogLine {
                at_ms,
                level: Level::Warn,
                source: LogSource::Host,
                message,
                fields: Vec::new(),
            });
        }
    }

    /// Returns the last lines of standard error.
    pub(crate) fn stderr_tail(&self) -> Vec<String> {
        self.inner().stderr_tail.iter().cloned().collect()
    }
}

impl Inner {
    const fn partial(&mut self, source: LogSource) -> &mut Partial {
        match source {
            LogSource::Stderr => &mut self.stderr,
            LogSource::Log | LogSource::Stdout | LogSource::Host => &mut self.stdout,
        }
    }

    fn end_line(&mut self, source: LogSource, at_ms: u64) {
        let message = self.partial(source).take();
        let level = if source == LogSource::Stderr {
            if self.stderr_tail.len() == STDERR_LINES_KEPT {
                self.stderr_tail.pop_front();
            }
            self.stderr_tail.push_back(message.clone());
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
        let told = self.lines.iter().take_while(|line| {
            let room = bytes < TOLD_BYTES;
            bytes += cost(line);
            room
        });
        let told = told.count();
        self.lines.drain(..told).collect()
    }

    /// Keeps a line, cut to size, or counts it as dropped. Once a line was dropped none is kept, so
    /// that the log has one end and no holes.
    fn push(&mut self, mut line: LogLine) {
        cut(&mut line.message, LINE_BYTES_MAX);
        line.fields.truncate(FIELDS_MAX);
        for (key, value) in &mut line.fields {
            cut(key, LINE_BYTES_MAX / FIELDS_MAX);
            cut(value, LINE_BYTES_MAX);
        }
        let cost = cost(&line);
        if self.dropped_lines > 0 || cost > self.bytes_left {
            self.dropped_lines += 1;
            return;
        }
        self.bytes_left -= cost;
        self.lines.push_back(line);
    }
}

impl Partial {
    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn add(&mut self, bytes: &[u8]) {
        let room = LINE_BYTES_MAX.saturating_sub(self.bytes.len());
        let kept = bytes.len().min(room);
        self.bytes.extend_from_slice(&bytes[..kept]);
        self.cut_bytes += (bytes.len() - kept) as u64;
    }

    fn take(&mut self) -> String {
        let mut line = String::from_utf8_lossy(&self.bytes).into_owned();
        self.bytes.clear();
        if self.cut_bytes > 0 {
            line.push_str(&cut_mark(self.cut_bytes));
            self.cut_bytes = 0;
        }
        if line.ends_with('\r') {
            line.pop();
        }
        line
    }
}

/// Returns what a line takes of the quota, in bytes.
fn cost(line: &LogLine) -> u64 {
    let fields = line.fields.iter();
    let text = line.message.len() + fields.map(|(k, v)| k.len() + v.len()).sum::<usize>();
    text as u64 + LINE_OVERHEAD_BYTES
}

fn cut_mark(bytes: u64) -> String {
    format!(" … ({bytes} more bytes)")
}

/// Cuts a text to about `bytes_max` bytes and says how much is missing.
pub(crate) fn cut(text: &mut String, bytes_max: usize) {
    // Room for the mark of a text that was cut before.
    if text.len() <= bytes_max + 64 {
        return;
    }
    let mut end = bytes_max;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mark = cut_mark((text.len() - end) as u64);
    text.truncate(end);
    text.push_str(&mark);
}

#[cfg(test)]
mod tests;
