//! The output of an execution, up to a limit. Pure.

use host_core::cell::{LogLine, LogSource};

/// The most bytes of an execution's log that are kept.
const LOG_BYTES_MAX: usize = 1 << 20;

/// The guest's output and log messages, and its error output.
#[derive(Debug, Default)]
pub(super) struct Log {
    stdout: String,
    stderr: String,
}

impl Log {
    pub(super) fn keep(&mut self, line: &LogLine) {
        let bytes = self.stdout.len() + self.stderr.len() + line.message.len() + 1;
        if bytes > LOG_BYTES_MAX {
            return;
        }
        let text = match line.source {
            LogSource::Stderr => &mut self.stderr,
            _ => &mut self.stdout,
        };
        text.push_str(&line.message);
        text.push('\n');
    }

    pub(super) fn take(&mut self) -> (String, String) {
        (
            std::mem::take(&mut self.stdout),
            std::mem::take(&mut self.stderr),
        )
    }
}
