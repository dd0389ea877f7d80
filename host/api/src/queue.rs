//! A queue as the API shows it.

use std::collections::BTreeMap;

use host_core::job::{STATES, State};
use host_core::query::QueueStatus;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How to pause a queue.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(as = PauseQueue)]
pub struct PauseBody {
    /// Whether to make the queue if it does not exist.
    pub create: bool,
}

/// A queue.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Queue)]
pub struct QueueView {
    /// Its name.
    pub name: String,
    /// Whether its jobs do not start.
    #[serde(default)]
    #[schema(required = true)]
    pub paused: bool,
    /// How many jobs it has in each state.
    #[serde(default)]
    #[schema(required = true)]
    pub counts: BTreeMap<String, u64>,
}

/// What became of a queue.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = RemovedQueue)]
pub struct RemovedQueueView {
    /// Its name.
    pub name: String,
    /// Always true.
    pub removed: bool,
}

impl QueueView {
    /// Returns how many jobs it has in a state.
    pub fn count(&self, state: State) -> u64 {
        self.counts.get(state.as_str()).copied().unwrap_or_default()
    }
}

impl From<QueueStatus> for QueueView {
    fn from(queue: QueueStatus) -> Self {
        let states = STATES.map(|state| state.as_str().to_owned());
        Self {
            name: queue.name.into(),
            paused: queue.paused,
            counts: states.into_iter().zip(queue.counts).collect(),
        }
    }
}
