//! The ways a handler can end without a result.

use std::fmt::Display;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Who must act on an error. Decides whether the job is retried, unless the error decides it itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// The author of the handler. Retried.
    #[default]
    UserCode,
    /// The sender of the params. Not retried.
    DataQuality,
    /// The operator of the host. Retried.
    Infrastructure,
    /// The person who deployed or configured the handler. Not retried.
    Configuration,
    /// The handler took too long. Retried.
    Timeout,
}

/// Why a handler returns no result.
///
/// `?` converts any [`std::error::Error`]. The category is then [`Category::UserCode`], the kind is
/// `error`, and the message contains the whole chain of sources.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// The handler failed.
    Failed(Box<Failed>),
    /// The handler asks for another attempt.
    Retry {
        /// Why another attempt is needed.
        reason: String,
        /// How long to wait, in milliseconds. If `None`, the job's backoff decides.
        after_ms: Option<u32>,
    },
    /// The handler stopped on request.
    Cancelled {
        /// Partial results.
        partial: Option<Value>,
    },
}

/// The details of [`Error::Failed`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failed {
    /// Who must act.
    #[serde(default)]
    pub category: Category,
    /// The handler's own name for the error.
    pub kind: String,
    /// One sentence for a person.
    pub message: String,
    /// The handler's own code.
    pub code: Option<String>,
    /// Additional data.
    pub details: Option<Value>,
    /// Whether another attempt may help. If `None`, the category decides.
    pub retryable: Option<bool>,
}

impl Error {
    /// Makes an error. `kind` is the handler's own name for it.
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

    /// Makes an error of category [`Category::UserCode`] that is not retried.
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

    /// Asks for another attempt after the job's backoff, and not before `after_ms` milliseconds.
    pub fn retry_after_ms(reason: impl Display, after_ms: u32) -> Self {
        Self::Retry {
            reason: reason.to_string(),
            after_ms: Some(after_ms),
        }
    }

    /// Reports that the handler stopped on request, with its partial results.
    pub fn cancelled(partial: &impl Serialize) -> Self {
        Self::Cancelled {
            partial: serde_json::to_value(partial).ok(),
        }
    }

    /// Sets whether another attempt may help. Has an effect only on [`Error::Failed`].
    #[must_use]
    pub fn retryable(self, retryable: bool) -> Self {
        self.with(|failed| failed.retryable = Some(retryable))
    }

    /// Adds the handler's own code. Has an effect only on [`Error::Failed`].
    #[must_use]
    pub fn code(self, code: impl Into<String>) -> Self {
        self.with(|failed| failed.code = Some(code.into()))
    }

    /// Adds data. Has an effect only on [`Error::Failed`].
    #[must_use]
    pub fn details(self, details: &impl Serialize) -> Self {
        self.with(|failed| failed.details = serde_json::to_value(details).ok())
    }

    /// Returns what the journal of a job keeps of it.
    pub(crate) fn to_failed(&self) -> Failed {
        let ended = |kind, message: &str| Failed {
            category: Category::UserCode,
            kind: String::from(kind),
            message: message.to_owned(),
            code: None,
            details: None,
            retryable: None,
        };
        match self {
            Self::Failed(failed) => (**failed).clone(),
            Self::Retry { reason, .. } => ended("retry", reason),
            Self::Cancelled { .. } => ended("cancelled", "the handler stopped on request"),
        }
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
