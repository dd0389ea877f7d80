//! Steps: parts of a job that are done once. The journal of the job keeps the result of each.

use serde::{Deserialize, Serialize};

use crate::id::LeaseId;
use crate::json::JsonText;

/// The most steps of a job.
pub const STEPS_MAX: u32 = 10_000;

/// The largest result, failure or checkpoint of a step, in bytes.
pub const STEP_BYTES_MAX: usize = 64 << 10;

/// The largest journal of a job, in bytes.
pub const JOURNAL_BYTES_MAX: u64 = 8 << 20;

/// The journal that an attempt continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepsGrant {
    /// The lease of the attempt.
    pub lease: LeaseId,
    /// The most steps of the job.
    pub steps_max: u32,
}

/// How far a step is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepState {
    /// It has begun, and this is its last checkpoint.
    Open(JsonText),
    /// This is its result.
    Done(JsonText),
    /// It failed, and the handler has continued with other steps.
    Failed(JsonText),
}

impl StepState {
    /// Returns whether it stays as it is.
    pub const fn is_final(&self) -> bool {
        !matches!(self, Self::Open(_))
    }

    /// Returns the checkpoint, the result or the failure.
    pub const fn value(&self) -> &JsonText {
        match self {
            Self::Open(value) | Self::Done(value) | Self::Failed(value) => value,
        }
    }

    /// Returns the stable name.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Open(_) => "open",
            Self::Done(_) => "done",
            Self::Failed(_) => "failed",
        }
    }

    /// Returns the state with this name.
    pub fn from_name(name: &str, value: JsonText) -> Option<Self> {
        match name {
            "open" => Some(Self::Open(value)),
            "done" => Some(Self::Done(value)),
            "failed" => Some(Self::Failed(value)),
            _ => None,
        }
    }
}
