//! How one attempt ended, what it used, and the record that is kept of it.

use serde::{Deserialize, Serialize};

use crate::failure::{Failure, FailureKind};
use crate::json::JsonText;
use crate::time::Time;

/// How an attempt ended. The first outcome of a lease wins; later ones change nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The handler returned.
    Completed {
        /// What it returned.
        result: Option<JsonText>,
    },
    /// It failed.
    Failed(Failure),
    /// The handler asked for another attempt.
    Retry {
        /// Why, in the handler's words.
        reason: String,
        /// How long to wait, in milliseconds; `None` leaves it to the job's backoff.
        after_ms: Option<u64>,
    },
    /// It stopped because it was cancelled.
    Cancelled {
        /// What it had done until then.
        partial: Option<JsonText>,
    },
}

impl Outcome {
    /// Returns the stable name, as it stands in an attempt of the API.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Completed { .. } => "completed",
            Self::Failed(failure) if matches!(failure.kind, FailureKind::Cancelled) => "cancelled",
            Self::Failed(_) => "failed",
            Self::Retry { .. } => "retry",
            Self::Cancelled { .. } => "cancelled",
        }
    }
}

/// What an attempt used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meter {
    /// Fuel, in wasmtime's units.
    pub fuel: u64,
    /// CPU time of the guest and of the host calls made for it, in microseconds.
    pub cpu_us: u64,
    /// The most linear memory it had at once, in bytes.
    pub peak_memory_bytes: u64,
}

/// How far a running attempt says it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// 0 to 100, if the handler knows.
    pub percent: Option<f32>,
    /// What it is doing.
    pub message: String,
}

/// What the executor of an attempt reports at its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// What it used.
    pub meter: Meter,
    /// The last progress it reported.
    pub progress: Option<Progress>,
    /// Who executed it, for people: `cell-3`, `python/1`.
    pub executor: String,
    /// The component and its revision, for attempts of deployed handlers.
    pub revision: Option<(String, u32)>,
}

/// One attempt, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// 1 for the first.
    pub number: u32,
    /// Who executed it.
    pub executor: String,
    /// The component and its revision.
    pub revision: Option<(String, u32)>,
    /// When it was claimed.
    pub started_at: Time,
    /// When its end was recorded.
    pub finished_at: Time,
    /// [`Outcome::as_str`], or `lost` if no report came.
    pub outcome: String,
    /// Why, if it did not complete.
    pub failure: Option<Failure>,
    /// What it used; zero if no report came.
    pub meter: Meter,
}
