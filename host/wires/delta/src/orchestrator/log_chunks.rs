//! The log of one attempt as its runner uploads it: chunks of bytes, cut into lines. Pure.

use host_core::cell::{LINE_OVERHEAD_BYTES, Level, LogLine, LogSource};

use crate::messages::LOG_BYTES_MAX;

/// The longest line, in bytes; longer ones are cut into several.
const LINE_BYTES_MAX: usize = 8 << 10;

/// How much of a log was received.
#[derive(Debug, Default)]
pub(super) struct LogChunks {
    /// The offset of the next byte.
    next: u64,
    /// What the lines that were kept cost.
    kept: u64,
    /// The begin of a line that has no end yet.
    rest: Vec<u8>,
    is_full: bool,
}

impl LogChunks {
    /// Returns where the log continues.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// Records that so many bytes were received, by other nodes or before a restart.
    pub(super) fn received(&mut self, bytes: u64) {
        self.kept = self.kept.max(bytes);
    }

    /// Takes the next chunk and returns its lines.
    pub(super) fn push(&mut self, bytes: &[u8], at_ms: u64) -> Vec<LogLine> {
        self.next = self.next.saturating_add(bytes.len() as u64);
        self.lines(bytes, at_ms)
    }

    fn lines(&mut self, new: &[u8], at_ms: u64) -> Vec<LogLine> {
        let mut lines = Vec::new();
        for byte in new {
            if self.is_full {
                break;
            }
            if *byte != b'\n' {
                self.rest.push(*byte);
                if self.rest.len() < LINE_BYTES_MAX {
                    continue;
                }
            }
            let line = self.line(at_ms);
            lines.extend(self.charge(line));
        }
        lines
    }

    /// Takes a line from elsewhere. Returns `None` if there is no room for it.
    pub(super) fn note(&mut self, source: LogSource, text: &str, at_ms: u64) -> Option<LogLine> {
        self.charge(line(at_ms, source, text.to_owned()))
    }

    /// Returns what waits for the end of its line.
    pub(super) fn flush(&mut self, at_ms: u64) -> Option<LogLine> {
        if self.rest.is_empty() {
            return None;
        }
        let line = self.line(at_ms);
        self.charge(line)
    }

    /// Counts a line. The first that does not fit becomes a note about that, later ones `None`.
    fn charge(&mut self, line: LogLine) -> Option<LogLine> {
        if self.is_full {
            return None;
        }
        let kept = self.kept + line.cost();
        if kept > LOG_BYTES_MAX {
            self.is_full = true;
            return Some(cut_here(line.at_ms));
        }
        self.kept = kept;
        Some(line)
    }

    fn line(&mut self, at_ms: u64) -> LogLine {
        let rest = std::mem::take(&mut self.rest);
        let text = rest.strip_suffix(b"\r").unwrap_or(&rest);
        line(
            at_ms,
            LogSource::Stdout,
            String::from_utf8_lossy(text).into_owned(),
        )
    }
}

fn cut_here(at_ms: u64) -> LogLine {
    let text = format!(
        "the log is truncated here: an attempt has at most {LOG_BYTES_MAX} bytes, and each line counts \
         {LINE_OVERHEAD_BYTES} more than its text"
    );
    line(at_ms, LogSource::Host, text)
}

fn line(at_ms: u64, source: LogSource, message: String) -> LogLine {
    LogLine {
        at_ms,
        level: Level::Info,
        source,
        message,
        fields: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(lines: Vec<LogLine>) -> Vec<String> {
        lines.into_iter().map(|line| line.message).collect()
    }

    #[test]
    fn lines_are_the_same_wherever_they_are_cut() {
        let text = b"one\r\ntwo\nthree";
        for cut in 0..=text.len() {
            let mut log = LogChunks::default();
            let mut all = texts(log.push(&text[..cut], 0));
            all.extend(texts(log.push(&text[cut..], 0)));
            all.extend(log.flush(0).map(|line| line.message));
            assert_eq!(all, ["one", "two", "three"], "{cut}");
            assert_eq!((log.next(), log.flush(0)), (text.len() as u64, None));
        }
    }

    #[test]
    fn a_log_is_cut_at_its_limit_and_says_so_once() {
        let mut log = LogChunks::default();
        let line = [b"x".repeat(99), b"\n".to_vec()].concat();
        let mut lines = Vec::new();
        for _ in 0..(LOG_BYTES_MAX / 100 + 10) {
            lines.extend(log.push(&line, 0));
        }
        let notes = lines.iter().filter(|line| line.source == LogSource::Host);
        assert_eq!(notes.count(), 1);
        let bytes: usize = lines.iter().map(|line| line.message.len()).sum();
        assert!(bytes as u64 <= LOG_BYTES_MAX, "{bytes}");
    }

    #[test]
    fn what_other_nodes_received_counts() {
        let mut log = LogChunks::default();
        log.received(LOG_BYTES_MAX - 100);
        let texts = texts(log.push(b"one\ntwo\nthree\n", 0));
        assert_eq!(texts.first().map(String::as_str), Some("one"));
        assert!(
            texts
                .last()
                .unwrap()
                .starts_with("the log is truncated here"),
            "{texts:?}"
        );
    }

    #[test]
    fn empty_lines_use_the_limit() {
        let empty = vec![b'\n'; 2 * usize::try_from(LOG_BYTES_MAX).unwrap()];
        let mut log = LogChunks::default();
        let lines = log.push(&empty, 0);
        let most = LOG_BYTES_MAX / LINE_OVERHEAD_BYTES;
        assert_eq!(lines.len() as u64, most + 1, "and the line of the host");
        assert_eq!(log.note(LogSource::Stdout, "", 0), None);
        let mut noted = LogChunks::default();
        let kept = (0..2 * most).filter(|_| noted.note(LogSource::Stderr, "", 0).is_some());
        assert_eq!(kept.count() as u64, most + 1);
    }

    #[test]
    fn a_line_without_an_end_is_cut() {
        let mut log = LogChunks::default();
        let lines = log.push(&b"x".repeat(3 * LINE_BYTES_MAX + 1), 0);
        assert_eq!(lines.len(), 3);
        assert_eq!(log.flush(7).unwrap().at_ms, 7);
        assert_eq!(texts(log.push(b"\xff\n\n", 0)), ["\u{fffd}", ""]);
    }
}
