//! The error of a command: its exit code, what was being done, why it failed and what to do next.

use std::fmt;
use std::io;

use crate::plain::block;

/// The exit codes. They are part of the public contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The command succeeded.
    Ok = 0,
    /// The request was refused or something on this machine failed.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// The job was discarded.
    JobFailed = 3,
    /// The job was cancelled.
    Cancelled = 4,
    /// The host does not know this name or id.
    NotFound = 5,
    /// The host does not answer.
    Unreachable = 6,
    /// The job had not ended when the wait timed out.
    WaitRanOut = 7,
    /// Other nodes have replaced this host; it may start again.
    Fenced = 8,
}

/// Why a command ends early.
#[derive(Debug)]
pub enum CliError {
    /// A failure whose text is still to be printed.
    Message {
        /// The exit code of the process.
        exit: Exit,
        /// What was being done, to what: completes "cannot …".
        doing: String,
        /// Why it failed.
        cause: String,
        /// What to do next.
        next: Option<String>,
    },
    /// Everything has been printed; only the exit code is left.
    Silent(Exit),
}

impl CliError {
    /// Makes an error that exits with `exit` and says "cannot `doing`: `cause`".
    pub fn new(exit: Exit, doing: impl Into<String>, cause: impl fmt::Display) -> Self {
        Self::Message {
            exit,
            doing: doing.into(),
            cause: cause.to_string(),
            next: None,
        }
    }

    /// Adds what to do next.
    #[must_use]
    pub fn next(mut self, advice: impl Into<String>) -> Self {
        if let Self::Message { next, .. } = &mut self {
            *next = Some(advice.into());
        }
        self
    }

    /// Makes the error of a failed write to standard output. If the reader is gone (`| head`), this is not a
    /// failure.
    pub fn stdout(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::Silent(Exit::Ok);
        }
        Self::new(Exit::Failed, "write to standard output", error)
            .next("free some space or redirect the output")
    }

    /// Makes the error of a process that has no standard output.
    pub(crate) fn closed_stdout() -> Self {
        Self::new(Exit::Failed, "write to standard output", "it is closed")
            .next("redirect it to a file, a pipe or /dev/null")
    }

    /// Returns the exit code of the process.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Message { exit, .. } | Self::Silent(exit) => *exit,
        }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message {
                doing, cause, next, ..
            } => {
                // Some of it may come from servers, files and names of files.
                write!(f, "error: cannot {}: {}", block(doing), block(cause))?;
                let mut next = next.iter();
                next.try_for_each(|next| write!(f, "\nhint: {}", block(next)))
            }
            Self::Silent(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_an_error_acts_on_a_terminal() {
        let hostile = "\u{1b}[2J\u{1b}]0;title\u{7}a\u{9b}b";
        let error = CliError::new(Exit::Failed, hostile, hostile).next(hostile);
        let shown = error.to_string();
        assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{9b}']), "{shown:?}");
        assert!(shown.starts_with("error: cannot a") && shown.contains("\nhint: a"));
    }
}
