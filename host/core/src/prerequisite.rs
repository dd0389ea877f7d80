//! What a job asks of the jobs that it depends on: how each has to end, and whose results it gets.

use serde::{Deserialize, Serialize};

use crate::id::JobId;

/// How a prerequisite has to end for the job that depends on it to start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    #[default]
    Completed,
    /// In any way.
    Ended,
    /// It is discarded.
    Failed,
}

/// What the end of a prerequisite means for a job that depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is no longer in the way.
    Met,
    /// The job cannot run.
    Failed,
    /// The job is not needed: it waits for a failure that did not come.
    Unneeded,
}

impl When {
    /// Returns the name that the API uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Ended => "ended",
            Self::Failed => "failed",
        }
    }
}

/// What a job asks of its prerequisites beside that they complete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditions {
    /// How each of them has to end; one that is not named must complete. A job that covers several has all of their
    /// conditions.
    pub when: Vec<(JobId, When)>,
    /// Names and the prerequisites whose results the params get under them.
    pub inputs: Vec<(Box<str>, JobId)>,
    /// Whether these may be results of jobs that were there before.
    pub reads_others: bool,
}

impl Conditions {
    /// Returns them if they ask for anything.
    pub fn some(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }

    /// Names the jobs that count as those named.
    #[must_use]
    pub fn renamed(&self, stands_for: impl Fn(JobId) -> JobId) -> Self {
        let when = self.when.iter();
        let inputs = self.inputs.iter();
        Self {
            when: when.map(|(id, when)| (stands_for(*id), *when)).collect(),
            inputs: inputs
                .map(|(name, id)| (name.clone(), stands_for(*id)))
                .collect(),
            ..*self
        }
    }
}
