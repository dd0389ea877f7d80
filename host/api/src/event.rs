//! What the stream of events says.

use std::borrow::Cow;

use host_core::id::JobId;
use host_core::job::State;
use host_core::name::Name;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::words::JobState;

/// Which events to send. An event must match every parameter that is given.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct EventsQuery {
    /// Only about this job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>)]
    pub job: Option<JobId>,
    /// Only changes of jobs of this queue; leaves out progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>)]
    pub queue: Option<Name>,
    /// Instead of events, send `changed` without data: at most one in two seconds after something has happened, and
    /// one in fifteen without, or in three while the job `job` runs and may log lines; `false` if absent.
    #[serde(default)]
    #[param(value_type = Option<bool>)]
    pub hints: bool,
}

/// The data of an event `change`: a job entered, changed or left its state.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ChangeView<'a> {
    #[schema(value_type = String)]
    pub job: JobId,
    pub handler: Cow<'a, str>,
    pub queue: Cow<'a, str>,
    /// `null` for a new job.
    #[schema(value_type = Option<JobState>)]
    pub from: Option<State>,
    /// `null` for one that was purged.
    #[schema(value_type = Option<JobState>)]
    pub to: Option<State>,
    pub attempt: u32,
    pub at: Cow<'a, str>,
}

/// The data of an event `progress`: a running job reported progress.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ProgressEventView<'a> {
    #[schema(value_type = String)]
    pub job: JobId,
    pub attempt: u32,
    pub percent: Option<f32>,
    pub message: Cow<'a, str>,
    pub at: Cow<'a, str>,
}

/// The data of an event `gap`: changes were missed and are no longer kept.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct GapView {
    /// How many; absent if unknown because the id is not one of this host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<u64>,
}
