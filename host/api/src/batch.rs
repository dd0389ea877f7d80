//! Batches of jobs as the API takes and shows them.

use host_core::name::address;
use host_core::seconds::Seconds;
use host_core::time::Time;
use host_engine::batch::{BatchCounts, JobBatch, OPEN_MS_MAX};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use crate::new_job::{AcceptedView, BatchPlanBody, NewJobBody};
use crate::pretty;
use crate::webhook::NotifyBody;
use crate::words::{BatchCallback, BatchState};

/// A batch to make. All or nothing of it is accepted.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = NewBatch)]
#[serde(deny_unknown_fields)]
pub struct NewBatchBody {
    /// What to call it: 1 to 100 characters. Names need not differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its first jobs: at most 1,000. `"#n"` in `depends_on` is entry n (from 0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<NewJobBody>>, max_items = 1_000)]
    pub jobs: Option<Box<RawValue>>,
    /// Enqueued when all jobs have completed. Callbacks are called with `{batch, callback, counts, failed}`, and have no
    /// params of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_success: Option<NewJobBody>,
    /// Enqueued when all jobs have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_end: Option<NewJobBody>,
    /// Enqueued when the first job is discarded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_first_failure: Option<NewJobBody>,
    /// The receivers that are notified when it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<NotifyBody>,
    /// Whether jobs may be added until it is closed, for at most 7 days.
    #[serde(default)]
    pub open: bool,
    /// How long it is kept after it has ended, at least 1; 604800 (7 days) if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<f64>, minimum = 1, maximum = 31_536_000)]
    pub retention_seconds: Option<Seconds>,
}

impl From<NewBatchBody> for BatchPlanBody {
    fn from(new: NewBatchBody) -> Self {
        Self {
            name: new.name,
            on_success: new.on_success,
            on_end: new.on_end,
            on_first_failure: new.on_first_failure,
            notify: new.notify,
            open: new.open,
            retention_seconds: new.retention_seconds,
        }
    }
}

/// A batch that was made, with its first jobs.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = MadeBatch)]
pub struct MadeBatchView {
    pub batch: BatchView,
    /// What became of each job. Those that existed before are not in the batch.
    pub jobs: Vec<AcceptedView>,
}

/// A batch of jobs.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Batch)]
pub struct BatchView {
    pub id: String,
    /// What it is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `open`: jobs may be added. `closed`: its jobs have not all ended. `ended`: they have.
    #[schema(value_type = BatchState)]
    pub state: String,
    pub counts: BatchCountsView,
    pub callbacks: Vec<CallbackView>,
    /// When it was made (RFC 3339).
    pub created_at: String,
    /// The principal that made it, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// When it is closed, if it is not closed earlier.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closes_at: Option<String>,
    /// When all of its jobs had ended. Jobs may be retried later.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// When it is forgotten, if it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_until: Option<String>,
    /// When its cancel was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel_requested_at: Option<String>,
    /// The reason given for the cancel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel_reason: Option<String>,
    /// What it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_because: Option<String>,
}

/// How many jobs a batch has, in all and by how they ended. Jobs that were deleted since are counted.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = BatchCounts)]
pub struct BatchCountsView {
    pub jobs: u64,
    pub not_ended: u64,
    pub completed: u64,
    /// Those that failed.
    pub discarded: u64,
    pub cancelled: u64,
}

/// A callback of a batch.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = BatchCallbackJob)]
pub struct CallbackView {
    /// What it waits for.
    #[schema(value_type = BatchCallback)]
    pub on: String,
    pub handler: String,
    pub queue: String,
    /// The id of its job, which exists once it is enqueued.
    pub job: String,
    /// Whether its job was enqueued.
    pub enqueued: bool,
}

/// Which page of batches.
#[derive(Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct BatchesQuery {
    /// At most this many, 1 to 1,000; 100 if absent.
    #[param(minimum = 1, maximum = 1_000)]
    pub limit: Option<u32>,
    /// The `next_cursor` of the answer before.
    pub cursor: Option<String>,
}

/// Why a batch is cancelled.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = BatchCancel)]
#[serde(deny_unknown_fields)]
pub struct CancelBatchBody {
    /// A reason that its jobs show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl BatchView {
    pub fn new(batch: &JobBatch) -> Self {
        let JobBatch { id, plan, progress } = batch;
        let state = match (progress.ended_at, progress.is_open) {
            (Some(_), _) => "ended",
            (None, true) => "open",
            (None, false) => "closed",
        };
        let closes = plan.created_at.plus_ms(OPEN_MS_MAX);
        let cancel = progress.cancel.as_ref();
        let callbacks = plan.callbacks.iter().map(|(on, job)| CallbackView {
            on: on.as_str().to_owned(),
            handler: address(job.executor.as_ref(), &job.handler).into_owned(),
            queue: job.queue.to_string(),
            job: job.id.to_string(),
            enqueued: progress.fired.contains(on),
        });
        Self {
            id: id.to_string(),
            name: plan.name.as_deref().map(str::to_owned),
            state: state.to_owned(),
            counts: progress.counts.into(),
            callbacks: callbacks.collect(),
            created_at: plan.created_at.to_rfc3339(),
            created_by: plan.origin.as_ref().map(|origin| origin.principal.clone()),
            closes_at: progress.is_open.then(|| closes.to_rfc3339()),
            ended_at: progress.ended_at.map(Time::to_rfc3339),
            kept_until: batch.kept_until().map(Time::to_rfc3339),
            cancel_requested_at: cancel.map(|cancel| cancel.requested_at.to_rfc3339()),
            cancel_reason: cancel.and_then(|cancel| cancel.reason.clone()),
            waits_because: waits_because(batch),
        }
    }
}

/// Says what a batch waits for.
fn waits_because(batch: &JobBatch) -> Option<String> {
    let progress = &batch.progress;
    if let (Some(refused), Some(on)) = (&progress.refused, progress.due.first()) {
        let on = on.as_str();
        return Some(format!(
            "the job of {on} was refused and is enqueued again soon: {refused}"
        ));
    }
    let not_ended = progress.counts.not_ended();
    if progress.ended_at.is_some() {
        return None;
    }
    if progress.is_open {
        let id = batch.id;
        return Some(format!("it is open until `host batch close {id}`"));
    }
    let jobs = pretty::count(progress.counts.jobs);
    let have = if not_ended == 1 { "has" } else { "have" };
    Some(format!(
        "{} of {jobs} jobs {have} not ended",
        pretty::count(not_ended)
    ))
}

impl From<BatchCounts> for BatchCountsView {
    fn from(counts: BatchCounts) -> Self {
        Self {
            jobs: counts.jobs,
            not_ended: counts.not_ended(),
            completed: counts.completed,
            discarded: counts.discarded,
            cancelled: counts.cancelled,
        }
    }
}
