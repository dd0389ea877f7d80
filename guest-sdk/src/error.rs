//! How a handler ends without a result.

use std::fmt::Display;

use serde::Serialize;
use serde_json::Value;

/// Who has to act on an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Category {
    /// The handler's author; tried again.
    UserCode,
    /// Whoever sent the params; not tried again.
    DataQuality,
    /// The operator of the host; tried again.
    Infrastructure,
    /// Whoever deployed or configured; not tried again.
    Configuration,
    /// It took too long; tried again.
    Timeout,
}

/// Why a handler does not return a result.
///
/// Any [`std::error::Error`] turns into one with `?`: category user code, kind `error`, the chain
/// of its sources in the message.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// It failed.
    Failed(Box<Failed>),
    /// It wants to be called again.
    Retry {
        /// Why.
        reason: String,
        /// How long to wait, in milliseconds; the job's backoff decides if absent.
        after_ms: Option<u32>,
    },
    /// It stopped because it was asked to.
    Cancelled {
        /// What it had done until then.
        partial: Option<Value>,
    },
}

/// The parts of a failure.
#[derive(Clone, Debug, PartialEq)]
pub struct Failed {
    /// Who has to act.
    pub category: Category,
    /// The handler's own name for the error.
    pub kind: String,
    /// One sentence for a person.
    pub message: String,
    /// The handler's own code.
    pub code: Option<String>,
    /// More data.
    pub details: Option<Value>,
    /// Whether another attempt may help; the category decides if absent.
    pub retryable: Option<bool>,
}

impl Error {
    /// Makes an error of `category` with the handler's own name for it.
    pub fn new(category: Category, kind: impl Into<String>, message: impl Display) -> Self {
        Self::Failed(Box::new(Failed {
            category,
            kind: kind.into(),
            message: message.to_string(),
            code: None,
            details: None,
            retryable: None,
        }))
    }

    /// Makes an error of the user's code that no other attempt helps.
    pub fn fatal(kind: impl Into<String>, message: impl Display) -> Self {
        Self::new(Category::UserCode, kind, message).retryable(false)
    }

    /// Asks for another attempt after the job's backoff.
    pub fn retry(reason: impl Display) -> Self {
        Self::Retry {
            reason: reason.to_string(),
            after_ms: None,
        }
    }

    /// Asks for another attempt after `after_ms` milliseconds.
    pub fn retry_after_ms(reason: impl Display, after_ms: u32) -> Self {
        Self::Retry {
            reason: reason.to_string(),
            after_ms: Some(after_ms),
        }
    }

    /// Says that the handler has stopped because it was asked to, with what it has done.
    pub fn cancelled(partial: &impl Serialize) -> Self {
        Self::Cancelled {
            partial: serde_json::to_value(partial).ok(),
        }
    }

    /// Says whether another attempt may help. Changes nothing but failures.
    #[must_use]
    pub fn retryable(self, retryable: bool) -> Self {
        self.with(|failed| failed.retryable = Some(retryable))
    }

    /// Adds the handler's own code. Changes nothing but failures.
    #[must_use]
    pub fn code(self, code: impl Into<String>) -> Self {
        self.with(|failed| failed.code = Some(code.into()))
    }

    /// Adds data. Changes nothing but failures.
    #[must_use]
    pub fn details(self, details: &impl Serialize) -> Self {
        self.with(|failed| failed.details = serde_json::to_value(details).ok())
    }

    fn with(mut self, change: impl FnOnce(&mut Failed)) -> Self {
        if let Self::Failed(failed) = &mut self {
            change(failed);
        }
        self
    }
}

impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            message.push_str(": ");
            message.push_str(&cause.to_string());
            source = cause.source();
        }
        Self::new(Category::UserCode, "error", message)
    }
}
