//! The error of a command: its exit code, what was being done, why it failed and what to do next.

use std::fmt;
use std::io;

use host_api::client::{Error, Problem, Unusable, WrongServer};
use host_core::json::words;

use crate::plain::{block, line};

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

impl From<WrongServer> for CliError {
    fn from(wrong: WrongServer) -> Self {
        let doing = format!("use {} as a server", line(&wrong.server));
        Self::new(Exit::Usage, doing, wrong.cause).next(wrong.next)
    }
}

impl From<Unusable> for CliError {
    fn from(unusable: Unusable) -> Self {
        match unusable {
            Unusable::Server(wrong) => wrong.into(),
            Unusable::NoContext(name) => {
                let doing = format!("use the context {}", line(&name));
                Self::new(Exit::NotFound, doing, "no context has this name")
                    .next("`host context ls` lists the contexts")
            }
            Unusable::Token { path, cause } => {
                let doing = format!("read the token in {}", line(&path.to_string_lossy()));
                Self::new(Exit::Usage, doing, cause)
                    .next("--token-file, HOST_TOKEN_FILE or the context names this file")
            }
            Unusable::Contexts { path, cause } => {
                let doing = format!("read the contexts in {}", line(&path.to_string_lossy()));
                Self::new(Exit::Usage, doing, cause)
            }
        }
    }
}

/// Returns what makes an error of a failed request, for `map_err`. `doing` completes "cannot …".
pub fn cannot(doing: &str) -> impl Fn(Error) -> CliError + '_ {
    move |error| {
        let (exit, cause, next) = explain(error);
        match next {
            Some(next) => CliError::new(exit, doing, cause).next(next),
            None => CliError::new(exit, doing, cause),
        }
    }
}

/// The same for a request that names something; `next` is what to do if the host does not know it.
pub fn cannot_find(doing: &str, next: &str) -> impl Fn(Error) -> CliError {
    move |error| {
        let error = cannot(doing)(error);
        match error.exit() {
            Exit::NotFound => error.next(next),
            _ => error,
        }
    }
}

fn explain(error: Error) -> (Exit, String, Option<String>) {
    let next = |text: &str| Some(text.to_owned());
    match error {
        Error::Invalid(cause) => (Exit::Usage, cause, None),
        Error::EmptyName => {
            let cause = "empty id or name".to_owned();
            (Exit::Usage, cause, next("pass an id or a name"))
        }
        Error::NotConnected(cause) => {
            let advice = "start a host with `host serve --data DIR`, or choose another one with --server URL or \
                          HOST_SERVER";
            (Exit::Unreachable, cause, next(advice))
        }
        Error::Tls { cause, next } => (Exit::Unreachable, cause, Some(next)),
        Error::NoAnswer { cause, only_reads } => {
            let advice = if only_reads {
                "try again; if that fails too, look at the host's log"
            } else {
                "the request may have taken effect: check before you repeat it (an enqueue with \
                 --unique-key is safe to repeat)"
            };
            (Exit::Unreachable, cause, next(advice))
        }
        Error::Refused {
            status, problem, ..
        } => explain_problem(status, problem),
        Error::NotAHost { status, address } => {
            let cause = format!("{address} answered {status} without a reason");
            let advice =
                format!("check that a host is listening at this address: `curl {address}/healthz`");
            (Exit::Failed, cause, Some(advice))
        }
        Error::Unreadable(error) => {
            let flaw = words::of(&error);
            let cause = format!("this version does not understand the answer: {flaw}");
            let advice = "use a `host` command of the same version as the server";
            (Exit::Failed, cause, next(advice))
        }
    }
}

fn explain_problem(status: u16, problem: Problem) -> (Exit, String, Option<String>) {
    let exit = match status {
        404 => Exit::NotFound,
        _ => Exit::Failed,
    };
    let words = problem
        .detail
        .or(problem.title)
        .unwrap_or_else(|| format!("the host answered {status}"));
    let words = block(&words);
    let Some(code) = problem.code else {
        return (exit, words.into_owned(), None);
    };
    let code = line(&code);
    let next = problem.next.map_or_else(
        || format!("`host explain {code}` explains this error"),
        |next| line(&next).into_owned(),
    );
    (exit, format!("{words} ({code})"), Some(next))
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
