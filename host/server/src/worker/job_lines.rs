//! The logs of guests on the standard output of a worker, one JSON document per line: an orchestrator that
//! captures the output of its workers finds the job by its id. A reader that is behind never delays a job: lines
//! that find no room are dropped and counted.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use host_core::cell::LogLine;
use host_core::time::Time;
use host_dispatch::foreign::FallbackLogs;
use host_runtime::clock::Clock;
use serde::Serialize;

/// How many messages of guests may wait to be written.
const WAITING_MAX: usize = 4_096;

/// The most memory of these messages, in bytes.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// How long the end of a worker waits for its reader.
const END_TIMEOUT: Duration = Duration::from_millis(100);

/// One line.
#[derive(Serialize)]
struct Line<'a> {
    at: String,
    level: &'a str,
    job: &'a str,
    attempt: u32,
    source: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    fields: serde_json::Map<String, serde_json::Value>,
}

/// Takes lines and writes them in a thread of its own.
pub(super) struct JobLines {
    clock: Clock,
    /// The thread ends once this is dropped and everything taken is written.
    texts: Arc<SyncSender<String>>,
    counts: Arc<Counts>,
    ended: Receiver<()>,
}

/// The waiting lines, and the number of dropped ones.
#[derive(Default)]
struct Counts {
    waiting_bytes: AtomicUsize,
    /// How many messages were dropped since the last note about that.
    dropped: AtomicU64,
}

/// Renders lines of an attempt that began at `started_at`. `wall_ahead_ms` is the wall clock minus host time.
fn render(
    (job, attempt): (&str, u32),
    started_at: Time,
    wall_ahead_ms: i64,
    lines: Vec<LogLine>,
) -> String {
    let mut text = String::new();
    for line in lines {
        let at = Time(
            started_at
                .plus_ms(line.at_ms)
                .0
                .saturating_add(wall_ahead_ms),
        );
        let fields = line.fields.into_iter();
        let shown = Line {
            at: at.to_rfc3339(),
            level: line.level.as_str(),
            job,
            attempt,
            source: line.source.as_str(),
            message: &line.message,
            fields: fields
                .map(|(name, value)| (name, value.to_value()))
                .collect(),
        };
        // Texts and numbers always have a JSON form.
        text += &serde_json::to_string(&shown).unwrap_or_default();
        text.push('\n');
    }
    text
}

fn write(texts: &Receiver<String>, counts: &Counts, mut out: impl Write) {
    while let Ok(text) = texts.recv() {
        counts
            .waiting_bytes
            .fetch_sub(text.len(), Ordering::Relaxed);
        let missing = counts.dropped.swap(0, Ordering::Relaxed);
        let note = match missing {
            0 => String::new(),
            _ => format!(
                "{{\"level\":\"warn\",\"message\":\"{missing} messages of jobs were dropped\"}}\n"
            ),
        };
        let written = out
            .write_all((note + &text).as_bytes())
            .and_then(|()| out.flush());
        if written.is_err() {
            return;
        }
    }
}

impl JobLines {
    /// Starts the thread that writes to standard output.
    pub(super) fn start(clock: Clock) -> io::Result<Self> {
        Self::start_on(clock, io::stdout())
    }

    fn start_on(clock: Clock, out: impl Write + Send + 'static) -> io::Result<Self> {
        let (texts, waiting) = sync_channel(WAITING_MAX);
        let (end, ended) = sync_channel(1);
        let counts = Arc::<Counts>::default();
        let counted = Arc::clone(&counts);
        thread::Builder::new()
            .name("job-lines".to_owned())
            .spawn(move || {
                write(&waiting, &counted, out);
                // The requester may be gone.
                let _ = end.send(());
            })?;
        Ok(Self {
            clock,
            texts: Arc::new(texts),
            counts,
            ended,
        })
    }

    /// Returns what takes the lines. After [`JobLines::end`] it drops them.
    pub(super) fn sink(&self) -> FallbackLogs {
        let (clock, texts) = (self.clock, Arc::downgrade(&self.texts));
        let counts = Arc::clone(&self.counts);
        Box::new(move |job, attempt, started_at, lines| {
            let ahead_ms = clock.wall().0.saturating_sub(clock.now().0);
            let text = render((job, attempt), started_at, ahead_ms, lines);
            let bytes = text.len();
            let waiting = counts.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
            let is_taken = waiting + bytes <= WAITING_BYTES_MAX
                && texts
                    .upgrade()
                    .is_some_and(|texts| texts.try_send(text).is_ok());
            if !is_taken {
                counts.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
                counts.dropped.fetch_add(1, Ordering::Relaxed);
            }
        })
    }

    /// Waits a moment until what was taken is written.
    pub(super) fn end(self) {
        drop(self.texts);
        // A reader that has stopped must not keep the worker.
        let _ = self.ended.recv_timeout(END_TIMEOUT).is_err();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::RecvTimeoutError;

    use host_core::cell::{Level, LogSource};
    use host_core::json::JsonText;
    use parking_lot::Mutex;
    use serde_json::{Value, json};

    use super::*;

    fn line(message: &str) -> LogLine {
        LogLine {
            at_ms: 1_500,
            level: Level::Warn,
            source: LogSource::Log,
            message: message.to_owned(),
            fields: vec![("rows".to_owned(), JsonText("7".to_owned()))],
        }
    }

    #[test]
    fn each_line_is_one_document_with_its_job_and_level() {
        let lines = vec![line("one\ntwo"), line("\u{1b}[31m")];
        let text = render(("job-1", 2), Time(1_000), 1_800_000_000_000, lines);
        let read: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let expected = |message: &str| {
            json!({
                "at": "2027-01-15T08:00:02.500Z",
                "level": "warn",
                "job": "job-1",
                "attempt": 2,
                "source": "log",
                "message": message,
                "fields": {"rows": 7},
            })
        };
        assert_eq!(read, [expected("one\ntwo"), expected("\u{1b}[31m")]);
    }

    /// Bounds each wait of a test.
    const PATIENCE: Duration = Duration::from_mins(1);

    /// An output that passes on what is written, and takes nothing while `gate` is shut.
    struct Gated {
        gate: Arc<Mutex<()>>,
        passed_on: SyncSender<String>,
        began: SyncSender<()>,
    }

    impl Write for Gated {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.began.try_send(());
            let _guard = self.gate.lock();
            let text = String::from_utf8_lossy(bytes).into_owned();
            self.passed_on.send(text).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_is_behind_delays_nothing() {
        let gate = Arc::new(Mutex::new(()));
        let (passed_on, lines_read) = sync_channel(WAITING_MAX * 2);
        let (began, has_begun) = sync_channel(1);
        let out = Gated {
            gate: Arc::clone(&gate),
            passed_on,
            began,
        };
        let shut = gate.lock();
        let lines = JobLines::start_on(Clock::start(), out).unwrap();
        let sink = lines.sink();
        sink("j", 1, Time(0), vec![line("x")]);
        has_begun.recv_timeout(PATIENCE).unwrap();
        for _ in 0..WAITING_MAX + 2 {
            sink("j", 1, Time(0), vec![line("x")]);
        }
        assert_eq!(lines.counts.dropped.load(Ordering::Relaxed), 2);
        lines.end();
        sink("j", 1, Time(0), vec![line("late")]);
        drop(shut);
        let mut texts = Vec::new();
        while texts.len() <= WAITING_MAX {
            texts.push(lines_read.recv_timeout(PATIENCE).unwrap());
        }
        assert!(texts[1].contains("3 messages of jobs were dropped"));
        // The thread has ended, though the sink is still there.
        let end = lines_read.recv_timeout(PATIENCE);
        assert_eq!(end, Err(RecvTimeoutError::Disconnected));
    }
}
