//! What operators do with jobs: the bodies of the requests and what became of them.

use std::ops::Not;

use host_core::job::State;
use host_core::seconds::Seconds;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words::JobState;

/// How to stop a job.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CancelBody {
    /// Why; it is shown with the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How long a running handler may take to stop by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>, minimum = 0, maximum = 31_536_000)]
    pub grace_seconds: Option<Seconds>,
}

/// How to run a job again.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetryBody {
    /// Whether it starts even if jobs it depends on have not ended as it needs.
    #[serde(skip_serializing_if = "Not::not")]
    pub force: bool,
}

/// A new priority.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PriorityBody {
    /// 0 (first) to 9.
    #[schema(value_type = u8, maximum = 9)]
    pub priority: i64,
}

/// A new start time: exactly one of the two.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RescheduleBody {
    /// At this instant (RFC 3339), or immediately if it has passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_at: Option<String>,
    /// This many seconds from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>, minimum = 0, maximum = 31_536_000)]
    pub delay_seconds: Option<Seconds>,
}

/// The result of a cancel.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct CancelView {
    /// The job.
    #[serde(default)]
    #[schema(required = true)]
    pub id: String,
    /// `running` until it has stopped, else `cancelled`.
    #[schema(value_type = JobState)]
    pub state: String,
    /// When the job's first cancel was accepted.
    pub cancel_requested_at: Option<String>,
}

/// How many jobs match.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct CountView {
    pub jobs: u64,
    /// Whether all jobs were examined. If not, there may be more.
    pub complete: bool,
    /// When the first of them was enqueued.
    pub oldest: Option<String>,
    /// When the last of them was enqueued.
    pub newest: Option<String>,
    /// Where the count continues if there may be more.
    pub next_cursor: Option<String>,
}

/// The result of changing one page of jobs.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct ManyView {
    /// How many jobs of this page match.
    pub matched: u64,
    /// How many of them were changed.
    pub changed: u64,
    /// How many of the changed jobs are running: a cancel has asked them to stop, and they may complete before.
    #[serde(default)]
    #[schema(required = true)]
    pub stopping: u64,
    /// How many of them had been asked to stop before, and are not counted as changed again.
    #[serde(default)]
    #[schema(required = true)]
    pub unchanged: u64,
    /// How many of them were not changed.
    pub refused: u64,
    /// How many of those were in another state by then, which does not allow the change.
    #[serde(default)]
    #[schema(required = true)]
    pub in_other_state: u64,
    /// The first refusals, at most ten.
    #[serde(default)]
    #[schema(required = true)]
    pub refusals: Vec<RefusalView>,
    /// The `cursor` of the next page; `null` at the end.
    pub next_cursor: Option<String>,
}

impl ManyView {
    /// Leaves out what a change of several states has counted before: jobs that it asked to stop because they had started
    /// since it read them, and which it finds again among those that run. `started` is how many those are.
    pub fn leave_out_started(&mut self, state: Option<State>, started: &mut u64) {
        if state != Some(State::Running) {
            *started += self.stopping;
            return;
        }
        let again = self.unchanged.min(*started);
        *started -= again;
        self.unchanged -= again;
        self.matched = self.matched.saturating_sub(again);
    }
}

/// Why a job was not changed.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct RefusalView {
    pub id: String,
    #[serde(default)]
    #[schema(required = true)]
    pub code: String,
    pub detail: String,
}
