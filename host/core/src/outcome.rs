//! How one attempt ended, what it used, and the record that is kept.

use serde::{Deserialize, Deserializer, Serialize};

use crate::failure::{Failure, FailureKind};
use crate::json::JsonText;
use crate::requests::Requests;
use crate::time::Time;

/// How an attempt ended. The first outcome of a lease counts; later ones change nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The handler returned.
    Completed {
        result: Option<JsonText>,
    },
    Failed(Failure),
    /// The handler asked for another attempt.
    Retry {
        /// The handler's reason.
        reason: String,
        /// How long to wait at least, in milliseconds. The job's backoff may be longer.
        after_ms: Option<u64>,
    },
    /// The attempt stopped because of a cancel.
    Cancelled {
        /// The partial result.
        partial: Option<JsonText>,
    },
}

impl Outcome {
    /// Returns the stable name that the API uses for an attempt.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Completed { .. } => "completed",
            Self::Failed(failure) if matches!(failure.kind, FailureKind::Cancelled) => "cancelled",
            Self::Failed(_) => "failed",
            Self::Retry { .. } => "retry",
            Self::Cancelled { .. } => "cancelled",
        }
    }

    /// Returns how many bytes its result takes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Completed { result } | Self::Cancelled { partial: result } => {
                result.as_ref().map_or(0, |result| result.as_str().len())
            }
            Self::Failed(_) | Self::Retry { .. } => 0,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meter {
    /// Fuel, in wasmtime's units.
    pub fuel: u64,
    /// CPU time of the guest and of the host calls made for it, in microseconds.
    pub cpu_us: u64,
    /// Its peak linear memory, in bytes.
    pub peak_memory_bytes: u64,
}

/// The progress that a running attempt reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// 0 to 100, if the handler knows it.
    pub percent: Option<f32>,
    /// What the attempt is doing.
    pub message: String,
}

/// What a foreign worker reports about itself and the end of its attempt. It decides nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerReport {
    /// The name that it gives itself.
    pub name: Option<String>,
    /// When the attempt ended, by the worker's clock.
    pub ended_at: Option<Time>,
    /// How many bytes the attempt read.
    pub read_bytes: Option<u64>,
    /// How many bytes the attempt wrote.
    pub written_bytes: Option<u64>,
}

impl WorkerReport {
    /// Returns the report to keep, `None` if it says nothing.
    pub fn non_empty(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

/// What the executor of an attempt reports when it ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub outcome: Outcome,
    /// What the attempt used.
    pub meter: Meter,
    /// The last progress that the attempt reported.
    pub progress: Option<Progress>,
    /// The display name of the worker that executed it: `cell-3`, `python/1`.
    pub executor: String,
    /// The component and its revision, for attempts of deployed handlers.
    pub revision: Option<(String, u32)>,
    /// What its foreign worker says about it.
    pub worker: Option<Box<WorkerReport>>,
    /// Its requests to HTTP servers; `None` if it made none.
    pub requests: Option<Box<Requests>>,
}

/// The outcome of an attempt of which no report came.
pub const LOST: &str = "lost";

/// The record of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// 1 for the first attempt.
    pub number: u32,
    /// The worker that executed it.
    pub executor: String,
    pub revision: Option<(String, u32)>,
    /// When it was claimed.
    pub started_at: Time,
    /// When the end was recorded.
    pub finished_at: Time,
    /// [`Outcome::as_str`], or [`LOST`] if no report came.
    pub outcome: String,
    /// Why the attempt did not complete.
    pub failure: Option<Failure>,
    /// What the attempt used; zero if no report came.
    pub meter: Meter,
    /// Its requests to HTTP servers; `None` if it made none or no report came.
    pub requests: Option<Box<Requests>>,
    /// What its foreign worker says about it. It comes last: records of earlier hosts end before it.
    #[serde(default, deserialize_with = "present")]
    pub worker: Option<Box<WorkerReport>>,
}

/// Reads the last field of a record, which is absent from earlier ones.
#[expect(clippy::unnecessary_wraps, reason = "serde asks for a result")]
fn present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Box<WorkerReport>>, D::Error> {
    Ok(Option::deserialize(deserializer).unwrap_or_default())
}

impl Attempt {
    /// Returns whether no report of its end came.
    pub fn is_lost(&self) -> bool {
        self.outcome == LOST
    }

    /// Returns the time from its claim to its recorded end, in milliseconds.
    pub fn ran_ms(&self) -> u64 {
        self.finished_at.since_ms(self.started_at)
    }
}
