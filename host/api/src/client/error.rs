//! Why a request has no answer that can be used.

use std::sync::atomic::Ordering;
use std::{fmt, io};

use serde::Deserialize;

use super::{Client, tls};

/// Why an address is not one of a host.
#[derive(Debug)]
pub struct WrongServer {
    /// The address, without a user and a password in it.
    pub server: String,
    /// What is wrong with it.
    pub cause: String,
    /// What to do next.
    pub next: String,
}

/// Why a request failed.
#[derive(Debug)]
pub enum Error {
    /// The request cannot be written.
    Invalid(String),
    /// An id or a name in the path is empty.
    EmptyName,
    /// No connection to the host was made.
    NotConnected(String),
    /// The two ends do not agree on TLS.
    Tls {
        cause: String,
        /// What to do.
        next: String,
    },
    /// The connection broke, or the answer took too long. The host may have carried out the request.
    NoAnswer {
        cause: String,
        /// Whether the request asked for no change.
        only_reads: bool,
    },
    /// The host refused the request.
    Refused {
        status: u16,
        problem: Problem,
        /// After how many seconds it may be sent again, if the host says so.
        retry_after: Option<u64>,
    },
    /// What answered is perhaps no host: it refused without a problem document.
    NotAHost { status: u16, address: String },
    /// The document of the answer is not the one that was expected.
    Unreadable(serde_json::Error),
}

/// The problem document of a refusal (RFC 9457), with the host's stable code. Others may write one too, such as
/// a proxy, so nothing of it must be there.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Problem {
    pub title: Option<String>,
    pub detail: Option<String>,
    pub code: Option<String>,
    pub next: Option<String>,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyName => f.write_str("an id or a name is empty"),
            Self::Invalid(cause) | Self::NotConnected(cause) | Self::NoAnswer { cause, .. } => {
                f.write_str(cause)
            }
            Self::Tls { cause, next } => write!(f, "{cause}; {next}"),
            Self::Refused {
                status, problem, ..
            } => {
                let parts: Vec<&str> = [&problem.title, &problem.detail]
                    .into_iter()
                    .flatten()
                    .map(String::as_str)
                    .collect();
                let code = problem.code.as_deref().unwrap_or("no code");
                write!(
                    f,
                    "refused with status {status}: {} ({code})",
                    parts.join(": ")
                )
            }
            Self::NotAHost { status, address } => {
                write!(
                    f,
                    "{address} answered {status} without a reason: perhaps it is not a host"
                )
            }
            Self::Unreadable(error) => write!(f, "the answer is not as expected: {error}"),
        }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for WrongServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot use {} as a server: {}; {}",
            self.server, self.cause, self.next
        )
    }
}

impl std::error::Error for WrongServer {}

impl Error {
    pub(super) fn invalid(error: impl fmt::Display) -> Self {
        Self::Invalid(error.to_string())
    }
}

impl WrongServer {
    pub(super) fn new(server: &str, cause: String, next: String) -> Self {
        let server = without_user(server);
        Self {
            server,
            cause,
            next,
        }
    }
}

impl Client {
    /// Makes the error of a request without an answer, and records whether the host accepted the
    /// connection.
    pub(super) fn no_answer(&self, error: &ureq::Error, only_reads: bool) -> Error {
        if let Some((cause, next)) = tls::explain(error, &self.shown) {
            self.answering.store(true, Ordering::Relaxed);
            return Error::Tls { cause, next };
        }
        let never_connected = match error {
            ureq::Error::Io(error) => error.kind() == io::ErrorKind::ConnectionRefused,
            ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve)
            | ureq::Error::HostNotFound
            | ureq::Error::ConnectionFailed => true,
            _ => false,
        };
        let cause = match error {
            // Without the prefix "io: ".
            ureq::Error::Io(error) => format!("no answer from {}: {error}", self.shown),
            error => format!("no answer from {}: {error}", self.shown),
        };
        if never_connected {
            return Error::NotConnected(cause);
        }
        self.answering.store(true, Ordering::Relaxed);
        Error::NoAnswer { cause, only_reads }
    }

    /// Makes the error of an answer whose status is not a success.
    pub(super) fn refusal(&self, status: u16, retry_after: Option<u64>, body: &str) -> Error {
        match serde_json::from_str(body) {
            Ok(problem) => Error::Refused {
                status,
                problem,
                retry_after,
            },
            Err(_) => Error::NotAHost {
                status,
                address: self.shown.clone(),
            },
        }
    }
}

/// Returns what a person may see of a URL: not the user and the password that may stand before `@`.
fn without_user(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (_, None) => url.to_owned(),
        (Some((scheme, _)), Some((before, rest))) if before.len() > scheme.len() => {
            format!("{scheme}://…@{rest}")
        }
        (_, Some((_, rest))) => format!("…@{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_server_is_shown_without_user_and_password() {
        for (url, shown) in [
            ("http://u:secret@h:1", "http://…@h:1"),
            ("redis://:se@cret@h", "redis://…@h"),
            ("u:secret@h://x", "…@h://x"),
            ("u:secret@h", "…@h"),
            ("http://h/x", "http://h/x"),
        ] {
            assert_eq!(without_user(url), shown);
            let refused = Client::new(url).map(drop).unwrap_err();
            assert!(!format!("{refused:?}").contains("cret@"), "{refused:?}");
        }
    }
}
