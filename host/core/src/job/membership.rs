//! The batch of a new job: one that there is, or one that the job makes when it is enqueued.

use serde::{Deserialize, Serialize};

use super::{NewJob, Origin};
use crate::id::BatchId;
use crate::notify::{Event, Notify};
use crate::time::Time;

/// The attribute that names the batch of a job.
pub const BATCH_ATTRIBUTE: &str = "batch.id";

/// What a callback waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum On {
    /// The first job is discarded.
    FirstFailure,
    /// All jobs have completed.
    Success,
    /// All jobs have ended.
    End,
}

impl On {
    /// Returns the name of the field that has the callback.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FirstFailure => "on_first_failure",
            Self::Success => "on_success",
            Self::End => "on_end",
        }
    }
}

impl From<On> for Event {
    fn from(on: On) -> Self {
        match on {
            On::FirstFailure => Self::BatchFirstFailure,
            On::Success => Self::BatchSuccess,
            On::End => Self::BatchEnd,
        }
    }
}

/// What a batch is made with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchPlan {
    /// What people call it.
    #[serde(default)]
    pub name: Option<Box<str>>,
    /// The callbacks, at most one of each kind. Their params come later.
    pub callbacks: Vec<(On, NewJob)>,
    /// The receiver of its end.
    #[serde(default)]
    pub notify: Option<Notify>,
    /// Who made it; `None` for anyone on a host without tokens.
    pub origin: Option<Box<Origin>>,
    pub created_at: Time,
    /// How long it is kept after it has ended, in milliseconds.
    pub kept_ms: u64,
}

/// A batch that a job makes when it is enqueued, as its first job. Each job made from the same template makes its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchStart {
    pub plan: BatchPlan,
    /// Whether jobs may be added later.
    pub is_open: bool,
}

/// How a new job comes into a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Membership {
    /// It joins one that is open.
    Joins(BatchId),
    /// It makes one.
    Starts(Box<BatchStart>),
}

impl NewJob {
    /// Returns the batch that counts it. One that it makes has its own id.
    pub fn batch_id(&self) -> Option<BatchId> {
        match self.batch.as_ref()? {
            Membership::Joins(batch) => Some(*batch),
            Membership::Starts(_) => Some(BatchId(self.id.0)),
        }
    }

    pub const fn starts_batch(&self) -> bool {
        matches!(self.batch, Some(Membership::Starts(_)))
    }

    /// Returns the callbacks of the batch that it makes.
    pub fn callbacks(&self) -> &[(On, Self)] {
        match &self.batch {
            Some(Membership::Starts(start)) => &start.plan.callbacks,
            _ => &[],
        }
    }

    /// The same, to change them.
    pub fn callbacks_mut(&mut self) -> &mut [(On, Self)] {
        match &mut self.batch {
            Some(Membership::Starts(start)) => &mut start.plan.callbacks,
            _ => &mut [],
        }
    }
}
