//! How an attempt can fail, and what each kind means: its category, and whether it is retried.

pub mod fingerprint;

use serde::{Deserialize, Serialize};

use crate::json::JsonText;

/// Who must act on a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Category {
    /// The handler's author.
    UserCode,
    /// The sender of the params.
    DataQuality,
    /// The operator of this host.
    Infrastructure,
    /// The person who deployed or configured.
    Configuration,
    /// Undecided: the attempt took too long.
    Timeout,
    /// No action is needed: the job was cancelled on request.
    Cancelled,
}

/// All categories, in the order of their declaration.
pub const CATEGORIES: [Category; 6] = [
    Category::UserCode,
    Category::DataQuality,
    Category::Infrastructure,
    Category::Configuration,
    Category::Timeout,
    Category::Cancelled,
];

impl Category {
    /// Returns the category of this stable name.
    pub fn from_name(name: &str) -> Option<Self> {
        let mut categories = CATEGORIES.into_iter();
        categories.find(|category| category.as_str() == name)
    }

    /// Returns the stable name that the API and the wires use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UserCode => "USER_CODE",
            Self::DataQuality => "DATA_QUALITY",
            Self::Infrastructure => "INFRASTRUCTURE",
            Self::Configuration => "CONFIGURATION",
            Self::Timeout => "TIMEOUT",
            Self::Cancelled => "CANCELLED",
        }
    }

    /// Returns whether a failure of this category is retried if the handler does not say.
    pub(crate) const fn retried_by_default(self) -> bool {
        matches!(self, Self::UserCode | Self::Infrastructure | Self::Timeout)
    }
}

/// The cause of a failure. The list is closed, so that every wire can map all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The handler returned an error.
    UserError,
    /// The guest trapped: panic, abort, exit, stack overflow or a broken ABI.
    Trapped,
    /// The CPU budget is used up.
    FuelExhausted,
    /// The time limit or the deadline has passed.
    TimedOut,
    /// The memory limit was hit.
    MemoryLimit,
    /// The result is larger than the handler's limit.
    ResultTooLarge,
    /// The handler does not accept the params.
    InvalidParams,
    /// No handler has this name.
    HandlerNotFound,
    /// The manifest grants something that this machine does not have.
    GrantMissing,
    /// The job was cancelled.
    Cancelled,
    /// A worker held the lease and did not stop within the grace of a cancel.
    CancelTimeout,
    /// The lease ran out or was not acknowledged in time.
    LeaseLost,
    /// The cell that ran the guest died, or the host stopped.
    CellLost,
    /// The job was alone in several cells that died.
    Poison,
    /// A job that this one depends on was discarded or cancelled.
    PrerequisiteFailed,
    /// The handler returned, but what it wrote does not fit what is stored.
    WritesRefused,
    /// The result of a job that this one depends on cannot be given to it.
    InputFailed,
    /// The handler meets its steps in another order than the attempts before it.
    StepsDiverged,
}

/// All kinds, in the order in which they are declared.
pub const FAILURE_KINDS: [FailureKind; 18] = [
    FailureKind::UserError,
    FailureKind::Trapped,
    FailureKind::FuelExhausted,
    FailureKind::TimedOut,
    FailureKind::MemoryLimit,
    FailureKind::ResultTooLarge,
    FailureKind::InvalidParams,
    FailureKind::HandlerNotFound,
    FailureKind::GrantMissing,
    FailureKind::Cancelled,
    FailureKind::CancelTimeout,
    FailureKind::LeaseLost,
    FailureKind::CellLost,
    FailureKind::Poison,
    FailureKind::PrerequisiteFailed,
    FailureKind::WritesRefused,
    FailureKind::InputFailed,
    FailureKind::StepsDiverged,
];

impl FailureKind {
    /// Returns the category of the kind. A handler's own error may name another one.
    pub const fn category(self) -> Category {
        match self {
            Self::UserError | Self::Trapped | Self::ResultTooLarge | Self::WritesRefused => {
                Category::UserCode
            }
            Self::FuelExhausted | Self::TimedOut => Category::Timeout,
            Self::InvalidParams | Self::InputFailed => Category::DataQuality,
            Self::HandlerNotFound
            | Self::GrantMissing
            | Self::PrerequisiteFailed
            | Self::StepsDiverged => Category::Configuration,
            Self::Cancelled | Self::CancelTimeout => Category::Cancelled,
            Self::MemoryLimit | Self::LeaseLost | Self::CellLost | Self::Poison => {
                Category::Infrastructure
            }
        }
    }

    /// Returns whether another attempt follows a failure of this kind.
    ///
    /// For [`FailureKind::UserError`], this is only the default if neither the handler nor its
    /// category decides; see [`Failure::is_retryable`].
    pub const fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::UserError
                | Self::Trapped
                | Self::TimedOut
                | Self::MemoryLimit
                | Self::LeaseLost
                | Self::CellLost
                | Self::WritesRefused
        )
    }

    /// Returns the kind of this stable name.
    pub fn from_name(name: &str) -> Option<Self> {
        FAILURE_KINDS.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Returns the stable name that the API and the wires use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UserError => "user_error",
            Self::Trapped => "trapped",
            Self::FuelExhausted => "fuel_exhausted",
            Self::TimedOut => "timed_out",
            Self::MemoryLimit => "memory_limit",
            Self::ResultTooLarge => "result_too_large",
            Self::InvalidParams => "invalid_params",
            Self::HandlerNotFound => "handler_not_found",
            Self::GrantMissing => "grant_missing",
            Self::Cancelled => "cancelled",
            Self::CancelTimeout => "cancel_timeout",
            Self::LeaseLost => "lease_lost",
            Self::CellLost => "cell_lost",
            Self::Poison => "poison",
            Self::PrerequisiteFailed => "prerequisite_failed",
            Self::WritesRefused => "writes_refused",
            Self::InputFailed => "input_failed",
            Self::StepsDiverged => "steps_diverged",
        }
    }
}

/// How one attempt failed, with everything needed to act on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub kind: FailureKind,
    /// One sentence for people.
    pub message: String,
    /// The handler's own category, for [`FailureKind::UserError`].
    pub category: Option<Category>,
    /// The handler's own name for the error, for [`FailureKind::UserError`].
    pub user_kind: Option<String>,
    /// The handler's own code.
    pub code: Option<String>,
    /// The handler's own JSON details.
    pub details: Option<JsonText>,
    /// A stack trace of the guest, if there is one.
    pub stack: Option<String>,
    /// Whether the handler allows another attempt, or `false` from a wire that never retries.
    pub retryable: Option<bool>,
}

impl Failure {
    /// Makes a failure with this kind and message and nothing else.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            category: None,
            user_kind: None,
            code: None,
            details: None,
            stack: None,
            retryable: None,
        }
    }

    /// Returns the handler's own name for the error, or else the kind.
    pub fn error_name(&self) -> &str {
        self.user_kind.as_deref().unwrap_or(self.kind.as_str())
    }

    /// Returns the failure without what may be large.
    #[must_use]
    pub fn brief(&self) -> Self {
        Self {
            category: self.category,
            user_kind: self.user_kind.clone(),
            code: self.code.clone(),
            retryable: self.retryable,
            ..Self::new(self.kind, "")
        }
    }

    /// Returns the handler's category if it named one, otherwise the kind's.
    pub fn category(&self) -> Category {
        match self.kind {
            FailureKind::UserError => self.category.unwrap_or(Category::UserCode),
            kind => kind.category(),
        }
    }

    /// Returns whether another attempt may follow. The handler decides for its own errors, the kind
    /// for all others. A wire that never retries overrules both with `false`.
    pub fn is_retryable(&self) -> bool {
        match self.kind {
            FailureKind::UserError => self
                .retryable
                .unwrap_or_else(|| self.category().retried_by_default()),
            kind => kind.is_retryable() && self.retryable != Some(false),
        }
    }
}
