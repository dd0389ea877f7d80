//! How many jobs came and went, as the API shows it.

use host_core::trend::Point;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::handler::SpreadView;

/// How far back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Span {
    /// 60 steps of a minute.
    #[default]
    Hour,
    /// 96 steps of a quarter of an hour.
    Day,
    /// 84 steps of two hours.
    Week,
}

/// Which steps.
#[derive(Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct TrendQuery {
    /// `hour`, `day` or `week`; `hour` if absent.
    #[param(value_type = Option<Span>, inline)]
    pub span: Option<Span>,
}

/// How many jobs came and went, and how long they took. A node counts what it does itself, since its start.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Trend)]
pub struct TrendView {
    /// The length of a step.
    pub step_seconds: u32,
    /// The steps, the oldest first. The last one is not over.
    pub points: Vec<PointView>,
}

/// One step.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = TrendPoint)]
pub struct PointView {
    /// When it began (RFC 3339).
    pub at: String,
    /// Jobs that were accepted.
    pub enqueued: u64,
    /// Jobs that completed.
    pub completed: u64,
    /// Jobs that were discarded.
    pub discarded: u64,
    /// Jobs that were cancelled.
    pub cancelled: u64,
    /// Attempts that failed.
    pub failures: u64,
    /// Jobs of all queues that waited for a slot, at the end of the step; absent if nothing has counted them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u64>,
    /// From when a job could start to its first attempt.
    pub waited_ms: SpreadView,
    /// How long an attempt took.
    pub ran_ms: SpreadView,
}

impl From<Point> for PointView {
    fn from(point: Point) -> Self {
        Self {
            at: point.at.to_rfc3339(),
            enqueued: point.enqueued,
            completed: point.completed,
            discarded: point.discarded,
            cancelled: point.cancelled,
            failures: point.failures,
            waiting: point.waiting,
            waited_ms: point.waited_ms.into(),
            ran_ms: point.ran_ms.into(),
        }
    }
}
