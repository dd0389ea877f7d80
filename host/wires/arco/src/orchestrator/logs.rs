//! The logs that workers send after their tasks. Pure.

use host_core::cell::{Level, LogLine, LogSource};
use host_core::port::lease::StoredJob;
use host_core::time::Time;

use super::envelope;
use crate::messages::RunLogs;

/// The most of a log that is kept, in bytes: what its lines cost, empty ones too.
const LOG_BYTES_MAX: u64 = 1 << 20;

/// The longest line, in bytes; longer ones are cut into several.
const LINE_BYTES_MAX: usize = 8 << 10;

/// The attempt of a job that a log is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct About {
    pub(super) granted_at: Time,
    /// How long after that its lines are dated, in milliseconds: they have no times of their own.
    pub(super) at_ms: u64,
}

/// Finds the attempt of a job that a log is about, which was sent for a workspace and a run. `None` if there is
/// none.
pub(super) fn about(
    now: Time,
    kept: &StoredJob,
    (workspace, run): (&str, &str),
    log: &RunLogs,
) -> Option<About> {
    let lifecycle = &kept.job.lifecycle;
    let scope = envelope::scope(lifecycle.id, log.attempt, &kept.job.payload.attributes);
    if lifecycle.handler.as_str() != log.task_key
        || scope.workspace != workspace
        || scope.run != run
    {
        return None;
    }
    let mut ended = kept.attempts.iter();
    if let Some(attempt) = ended.find(|attempt| attempt.number == log.attempt) {
        return Some(About {
            granted_at: attempt.started_at,
            at_ms: attempt.ran_ms(),
        });
    }
    let lease = lifecycle
        .lease
        .as_ref()
        .filter(|_| lifecycle.attempt == log.attempt)?;
    Some(About {
        granted_at: lease.granted_at,
        at_ms: now.since_ms(lease.granted_at),
    })
}

/// Returns the lines of a log, its errors last.
pub(super) fn lines(log: &RunLogs, at_ms: u64) -> Vec<LogLine> {
    let sources = [
        (&log.stdout, LogSource::Stdout, Level::Info),
        (&log.stderr, LogSource::Stderr, Level::Warn),
    ];
    let all = sources.into_iter().flat_map(|(text, source, level)| {
        text.lines().flat_map(pieces).map(move |piece| LogLine {
            at_ms,
            level,
            source,
            message: piece.to_owned(),
            fields: Vec::new(),
        })
    });
    let mut kept = 0;
    let mut lines: Vec<LogLine> = Vec::new();
    for line in all {
        kept += line.cost();
        if kept > LOG_BYTES_MAX {
            let message =
                format!("the log is truncated here: it is limited to {LOG_BYTES_MAX} bytes");
            lines.push(LogLine {
                level: Level::Warn,
                source: LogSource::Host,
                message,
                ..line
            });
            break;
        }
        lines.push(line);
    }
    lines
}

/// Cuts a line into pieces that are not too long.
fn pieces(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let text = rest?;
        let (piece, more) = text.split_at(text.floor_char_boundary(LINE_BYTES_MAX));
        rest = (!more.is_empty()).then_some(more);
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(stdout: &str, stderr: &str) -> RunLogs {
        RunLogs {
            task_key: "key".to_owned(),
            attempt: 1,
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
        }
    }

    #[test]
    fn texts_are_cut_into_lines() {
        let long = "é".repeat(LINE_BYTES_MAX);
        let lines = lines(&log(&format!("one\r\n\n{long}"), "two\n"), 7);
        let parts = |line: &LogLine| (line.at_ms, line.source, line.message.clone());
        let shown: Vec<_> = lines.iter().map(parts).collect();
        let half = "é".repeat(LINE_BYTES_MAX / 2);
        let out = |text: &str| (7, LogSource::Stdout, text.to_owned());
        let err = (7, LogSource::Stderr, "two".to_owned());
        assert_eq!(shown, [out("one"), out(""), out(&half), out(&half), err]);
    }

    #[test]
    fn a_log_is_cut_at_its_limit_and_says_so() {
        for text in ["\n".repeat(2 << 20), "x".repeat(2 << 20)] {
            let lines = lines(&log(&text, "more"), 0);
            let cost: u64 = lines.iter().map(LogLine::cost).sum();
            assert!(cost < LOG_BYTES_MAX + 200, "{cost}");
            let last = lines.last().unwrap();
            assert_eq!((last.source, last.level), (LogSource::Host, Level::Warn));
        }
    }
}
