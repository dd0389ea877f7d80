//! Why a request failed, in words: no answer, a refusal, or an answer of something else.

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
    pub(super) fn broken(&self, doing: &str, error: &ureq::Error) -> CliError {
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
            ureq::Error::Io(error) => format!("no answer from {}: {error}", self.base),
            error => format!("no answer from {}: {error}", self.base),
        };
        let error = CliError::new(Exit::Unreachable, doing, cause);
        if never_connected {
            error.next(
                "start a host with `host serve --data DIR`, or name another one with --server URL \
                 or HOST_SERVER",
            )
        } else {
            error.next(
                "the host may or may not have done it: look before you repeat it (an enqueue with \
                 --unique-key is safe to repeat)",
            )
        }
    }

    pub(super) fn refusal(&self, doing: &str, status: u16, body: &str) -> CliError {
        let exit = match status {
            404 => Exit::NotFound,
            _ => Exit::Failed,
        };
        let Ok(problem) = serde_json::from_str::<Problem>(body) else {
            let cause = format!("{} answered {status} without saying why", self.base);
            return CliError::new(Exit::Failed, doing, cause)
                .next("check that a host listens at this address: `curl` its /healthz");
        };
        let words = problem.detail.or(problem.title);
        let words = words.unwrap_or_else(|| format!("the host answered {status}"));
        let Some(code) = problem.code else {
            return CliError::new(exit, doing, plain::line(&words));
        };
        let code = plain::line(&code).into_owned();
        let next = problem.next.map_or_else(
            || format!("`host explain {code}` says more"),
            |next| plain::line(&next).into_owned(),
        );
        CliError::new(exit, doing, format!("{} ({code})", plain::line(&words))).next(next)
    }
}
