//! What the steps of a job returned, and how it is reported: in the summary if it is short, else in
//! files beside the log. Pure.

use std::path::Path;

use host_core::failure::FailureKind;
use host_core::outcome::Outcome;

use crate::messages::fields::cut;
use crate::messages::read::{Artifact, Status};

/// The longest results that stand in the summary, in bytes.
const INLINE_BYTES_MAX: usize = 64 << 10;

/// The longest text about a failure, in bytes.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// The results of the steps that have ended.
#[derive(Debug, Default)]
pub(super) struct Results {
    results: Vec<String>,
    /// Where the log is: larger results go beside it.
    log: Option<String>,
}

/// A summary, artifacts, and files with their contents.
pub(super) type Report = (String, Vec<Artifact>, Vec<(String, String)>);

impl Results {
    /// `log` is the absolute path of the log, if there is one.
    pub(super) fn new(log: Option<&Path>) -> Self {
        Self {
            results: Vec::new(),
            log: log.map(|path| path.display().to_string()),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.results.len()
    }

    pub(super) fn push(&mut self, result: String) {
        self.results.push(result);
    }

    /// Reports all results. The summary of a job that did not succeed begins with `text`, and tells
    /// what the steps before returned.
    pub(super) fn report(&self, has_succeeded: bool, text: &str) -> Report {
        let mut artifacts = Vec::new();
        let mut files = Vec::new();
        let all = match self.results.as_slice() {
            [only] => only.clone(),
            several => format!("[{}]", several.join(",")),
        };
        let fits = all.len() <= INLINE_BYTES_MAX;
        if let Some(log) = &self.log {
            artifacts.push(artifact("log", log));
            let large = (0..).zip(&self.results).filter(|_| !fits);
            for (at, result) in large {
                let path = format!("{log}.result-{at}.json");
                artifacts.push(artifact("result", &path));
                files.push((path, result.clone()));
            }
        }
        if has_succeeded && fits {
            return (all, artifacts, files);
        }
        let mut reason = text.to_owned();
        if cut(&mut reason, TEXT_BYTES_MAX) {
            reason.push('…');
        }
        let large = format!("the results have {} bytes", all.len());
        let results = match (&self.log, fits) {
            _ if self.results.is_empty() => None,
            (_, true) => Some(format!("the results before: {all}")),
            (Some(_), false) => Some(large),
            (None, false) => {
                let mut begin = all;
                let _ = cut(&mut begin, INLINE_BYTES_MAX);
                Some(format!("{large}; they begin with {begin}"))
            }
        };
        let reason = (!has_succeeded).then_some(reason);
        let parts: Vec<String> = reason.into_iter().chain(results).collect();
        (parts.join("; "), artifacts, files)
    }
}

fn artifact(kind: &str, path: &str) -> Artifact {
    Artifact {
        r#type: kind.to_owned(),
        uri: format!("file://{path}"),
    }
}

/// Returns the status and the words for a guest that did not complete.
pub(super) fn failed_text(outcome: Outcome) -> (Status, String) {
    match outcome {
        Outcome::Failed(failure) if failure.kind == FailureKind::TimedOut => {
            (Status::TimedOut, failure.message)
        }
        Outcome::Failed(failure) => {
            let message = format!("{}: {}", failure.error_name(), failure.message);
            (Status::Failed, message)
        }
        Outcome::Retry { reason, .. } => (Status::Failed, format!("retry requested: {reason}")),
        Outcome::Cancelled { partial } => {
            let partial = partial.map_or_else(String::new, |it| format!("; it had done {}", it.0));
            (Status::Failed, format!("stopped{partial}"))
        }
        Outcome::Completed { .. } => (Status::Succeeded, String::new()),
    }
}
