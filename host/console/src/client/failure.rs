//! The error of a request that failed: there was no answer, the host refused it, or another program
//! answered.

use std::sync::atomic::Ordering;

use serde::Deserialize;

use super::Client;
use crate::error::{CliError, Exit};
use crate::plain;

/// The problem document of a refusal (RFC 9457), with the host's stable code.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Problem {
    title: Option<String>,
    detail: Option<String>,
    code: Option<String>,
    next: Option<String>,
}

impl Client {
    /// Makes the error of a request without an answer, and records whether the host accepted the
    /// connection.
    pub(super) fn no_answer(&self, doing: &str, error: &ureq::Error, only_reads: bool) -> CliError {
        let never_connected = match error {
            ureq::Error::Io(error) => error.kind() == std::io::ErrorKind::ConnectionRefused,
            ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve)
            | ureq::Error::HostNotFound
            | ureq::Error::ConnectionFailed => true,
            _ => false,
        };
        if !never_connected {
            self.answering.store(true, Ordering::Relaxed);
        }
        let cause = match error {
            // Without the prefix "io: ".
            ureq::Error::Io(error) => format!("no answer from {}: {error}", self.shown),
            error => format!("no answer from {}: {error}", self.shown),
        };
        let error = CliError::new(Exit::Unreachable, doing, cause);
        if never_connected {
            error.next(
                "start a host with `host serve --data DIR`, or choose another one with --server URL or \
                 HOST_SERVER",
            )
        } else if only_reads {
            error.next("try again; if that fails too, look at the host's log")
        } else {
            error.next(
                "the request may have taken effect: check before you repeat it (an enqueue with \
                 --unique-key is safe to repeat)",
            )
        }
    }

    /// Makes the error of an answer whose status is not a success.
    pub(super) fn refusal(&self, doing: &str, status: u16, body: &str) -> CliError {
        let exit = match status {
            404 => Exit::NotFound,
            _ => Exit::Failed,
        };
        let Ok(problem) = serde_json::from_str::<Problem>(body) else {
            let cause = format!("{} answered {status} without a reason", self.shown);
            return CliError::new(Exit::Failed, doing, cause).next(format!(
                "check that a host is listening at this address: `curl {}/healthz`",
                self.shown
            ));
        };
        let words = problem.detail.or(problem.title);
        let words = words.unwrap_or_else(|| format!("the host answered {status}"));
        let Some(code) = problem.code else {
            return CliError::new(exit, doing, plain::line(&words));
        };
        let code = plain::line(&code).into_owned();
        let next = problem.next.map_or_else(
            || format!("`host explain {code}` explains this error"),
            |next| plain::line(&next).into_owned(),
        );
        CliError::new(exit, doing, format!("{} ({code})", plain::line(&words))).next(next)
    }
}
