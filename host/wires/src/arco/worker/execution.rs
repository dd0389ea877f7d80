//! One execution in our sandbox: what it reports, kept until its run looks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host_core::cell::{LogLine, LogSource};
use host_core::outcome::{Meter, Outcome, Progress};
use host_core::port::{Answer, Answers, Tag};
use tokio::sync::Notify;

/// The most bytes of an execution's log that are kept.
const LOG_BYTES_MAX: usize = 1 << 20;

/// How an execution ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum End {
    Ended(Outcome, Meter),
    /// There was no room for it.
    Busy,
}

/// What an execution has reported.
#[derive(Debug, Default)]
pub(super) struct Execution {
    said: Mutex<Said>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct Said {
    progress: Option<Progress>,
    stdout: String,
    stderr: String,
    end: Option<End>,
}

impl Execution {
    /// Waits for the end. One task waits. Cancel safe.
    pub(super) async fn end(&self) -> End {
        loop {
            if let Some(end) = self.lock().end.clone() {
                return end;
            }
            self.ended.notified().await;
        }
    }

    /// Returns the latest progress.
    pub(super) fn progress(&self) -> Option<Progress> {
        self.lock().progress.clone()
    }

    /// Takes the log: the guest's output and messages, and its errors.
    pub(super) fn take_log(&self) -> (String, String) {
        let mut said = self.lock();
        (
            std::mem::take(&mut said.stdout),
            std::mem::take(&mut said.stderr),
        )
    }

    fn lock(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Said {
    fn keep(&mut self, line: &LogLine) {
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
}

impl Answers for Execution {
    fn answer(self: Arc<Self>, _: Tag, answer: Answer) {
        let mut said = self.lock();
        let end = match answer {
            Answer::Began => return,
            Answer::Progressed(progress) => {
                said.progress = Some(progress);
                return;
            }
            Answer::Logged { lines, .. } => {
                for line in &lines {
                    said.keep(line);
                }
                return;
            }
            Answer::Ended(outcome, meter) => End::Ended(outcome, meter),
            Answer::Busy => End::Busy,
        };
        said.end = Some(end);
        drop(said);
        self.ended.notify_one();
    }
}
