//! A job as the API shows it. What a job does not have is left out.

use std::collections::BTreeMap;

use host_core::failure::{Failure, FailureKind};
use host_core::job::{Lifecycle, State};
use host_core::lease::Lease;
use host_core::name::address;
use host_core::outcome::Progress;
use host_core::query::{JobDetail, JobSummary};
use host_core::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::artifact::ArtifactView;
use crate::attempt::FailureView;
use crate::depends_on::DependsOnBody;
use crate::node::NamedNode;
use crate::webhook::NotifyBody;
use crate::words::{JobState, Withheld};
use crate::{raw, seconds};

/// A job. Lists leave out what is large: params, result and the rest that does not change.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = Job)]
pub struct JobView {
    /// Its id.
    pub id: String,
    /// Its state.
    #[schema(value_type = JobState)]
    pub state: String,
    /// The handler that executes it; `python#send_email` is one of a foreign runner.
    pub handler: String,
    /// The queue it waits in.
    pub queue: String,
    /// 0 (first) to 9.
    #[schema(maximum = 9)]
    pub priority: u8,
    /// The current or latest attempt; 0 before the first.
    #[serde(default)]
    #[schema(required = true)]
    pub attempt: u32,
    /// The most attempts that count.
    #[serde(default)]
    #[schema(required = true)]
    pub max_attempts: u32,
    /// How many attempts count so far.
    #[serde(default)]
    #[schema(required = true)]
    pub attempts_charged: u32,
    /// How many attempts do not count because they were lost through no fault of the job.
    #[serde(default)]
    #[schema(required = true)]
    pub attempts_lost: u32,
    /// How long it waited, in milliseconds: all the time until now or its end without an attempt.
    #[serde(default)]
    #[schema(required = true)]
    pub waited_ms: u64,
    /// How long its attempts took together, in milliseconds.
    #[serde(default)]
    #[schema(required = true)]
    pub ran_ms: u64,
    /// The node that runs it, if other nodes may share the store. Absent if its worker holds it by heartbeats,
    /// because those may continue at any node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<NamedNode>,
    /// The wire it came in over; `http` is this API.
    #[serde(default)]
    #[schema(required = true)]
    pub wire: String,
    /// When it was accepted (RFC 3339).
    #[serde(default)]
    #[schema(required = true)]
    pub enqueued_at: String,
    /// Not before this instant, or when its next attempt is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_at: Option<String>,
    /// No attempt after this instant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// The deadline that had passed when it was run again, and that no longer holds. Only in the answer to a retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed_deadline: Option<String>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// When its foreign worker last sent a heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_at: Option<String>,
    /// When its cancel was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel_requested_at: Option<String>,
    /// The reason given for the cancel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancel_reason: Option<String>,
    /// The longest an attempt may take, if the job says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<f64>,
    /// When it is forgotten, if it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_until: Option<String>,
    /// How long it is kept after it has completed or was cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_seconds: Option<f64>,
    /// How long it is kept after it was discarded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_discarded_seconds: Option<f64>,
    /// How many jobs it still waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prerequisites_open: Option<u32>,
    /// Why it does not start, if no node can run it now or it waits for other jobs or a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_because: Option<String>,
    /// The principal that enqueued it, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// The key that makes it unique in its queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique_key: Option<String>,
    /// The jobs it waits or waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depends_on: Option<Vec<DependsOnBody>>,
    /// The names below `/inputs` in its params, and the jobs whose results are there once they have ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<BTreeMap<String, String>>,
    /// The files that its handler reads, by name: the id of an upload, or `JOB/NAME` for an artifact of another job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<BTreeMap<String, String>>,
    /// The receivers that are notified of its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notify: Option<Vec<NotifyBody>>,
    /// The batch that counts it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<String>,
    /// The jobs that wait for it: the first 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dependents: Option<Vec<String>>,
    /// The id a foreign orchestrator knows it by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    /// W3C trace context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace_context: Option<BTreeMap<String, String>>,
    /// Other values that its sender attached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<BTreeMap<String, String>>,
    /// The latest progress of its attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<ProgressView>,
    /// What the handler is called with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub params: Option<Box<RawValue>>,
    /// Its result, or what it had done when it was cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub result: Option<Box<RawValue>>,
    /// The files that it has produced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<Vec<ArtifactView>>)]
    pub artifacts: Vec<ArtifactView>,
    /// Why its latest attempt did not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureView>,
    /// What it has, but the caller may not see: `params`, `result`, of the `failure` all but its kind, or of `waits_because` the
    /// key of a limit. That needs the verb `read_payload`, or `read_own` if the caller has enqueued the job. Of `depends_on`,
    /// `inputs` and `files`, jobs beyond the caller's scope are left out; then `waits_because` is left out too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<Vec<Withheld>>)]
    pub withheld: Vec<String>,
}

/// The progress of an attempt.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Progress)]
pub struct ProgressView {
    /// 0 to 100, if the handler knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<f32>,
    /// What it is doing.
    #[serde(default)]
    #[schema(required = true)]
    pub message: String,
}

impl JobView {
    /// Shows a job in a list.
    pub fn summary(job: JobSummary, live: Option<Progress>, now: Time) -> Self {
        let mut view = Self::new(&job.lifecycle, job.wire, now);
        view.progress = live.map(ProgressView::from);
        if let (Some(failure), Some(known)) = (&mut view.failure, job.failure) {
            let message = std::mem::take(&mut failure.message);
            *failure = Failure { message, ..known }.into();
        }
        view
    }

    /// Shows all of a job; `live` is the progress of its running attempt.
    pub fn detail(job: JobDetail, live: Option<Progress>, now: Time) -> Self {
        let mut view = Self::new(&job.lifecycle, job.payload.wire, now);
        let kept = job.lifecycle.policy.retention;
        view.kept_until = job.lifecycle.kept_until().map(Time::to_rfc3339);
        view.retention_seconds = Some(seconds(kept.ms));
        view.retention_discarded_seconds = Some(seconds(kept.discarded_ms));
        view.created_by = job.payload.origin.map(|origin| origin.principal);
        view.unique_key = job.unique_key;
        view.batch = job.lifecycle.batch.map(|batch| batch.to_string());
        let conditions = job.depends_on.iter().flat_map(|id| {
            let of_one = job.lifecycle.when(*id);
            of_one.map(|when| DependsOnBody::new(id.to_string(), when))
        });
        view.depends_on = some(conditions.collect());
        let inputs: BTreeMap<_, _> = job
            .lifecycle
            .inputs()
            .map(|(name, id)| (name.to_owned(), id.to_string()))
            .collect();
        view.inputs = (!inputs.is_empty()).then_some(inputs);
        let receivers = job.lifecycle.notify.iter();
        view.notify = some(receivers.map(|it| NotifyBody::from(&it.notify)).collect());
        view.external_id = job.payload.external_id;
        view.trace_context =
            some(job.payload.trace_context).map(|pairs| pairs.into_iter().collect());
        view.attributes = some(job.payload.attributes).map(|pairs| pairs.into_iter().collect());
        view.progress = live.or(job.progress).map(ProgressView::from);
        view.params = Some(raw(job.payload.params));
        view.result = job.result.map(raw);
        let known = job
            .failure
            .filter(|known| Some(known.kind) == job.lifecycle.failure);
        if let Some(failure) = known {
            view.failure = Some(failure.into());
        }
        view
    }

    fn new(job: &Lifecycle, wire: String, now: Time) -> Self {
        let instant = |at: Option<Time>| at.map(Time::to_rfc3339);
        let cancel = job.cancel.as_ref();
        let reason = cancel.and_then(|cancel| cancel.reason.clone());
        Self {
            id: job.id.to_string(),
            state: job.state.as_str().to_owned(),
            handler: address(job.executor.as_ref(), &job.handler).into_owned(),
            queue: job.queue.to_string(),
            priority: job.priority,
            attempt: job.attempt,
            max_attempts: job.policy.max_attempts,
            attempts_charged: job.attempts_charged(),
            attempts_lost: job.attempts_uncharged,
            waited_ms: job.waited_ms(now),
            ran_ms: job.ran_ms(now),
            wire,
            enqueued_at: job.enqueued_at.to_rfc3339(),
            run_at: instant(job.run_at),
            deadline: instant(job.deadline),
            finished_at: instant(job.finished_at),
            cancel_requested_at: instant(cancel.map(|cancel| cancel.requested_at)),
            last_heartbeat_at: instant(job.lease.as_ref().and_then(Lease::last_heartbeat_at)),
            failure: job.failure.map(|kind| {
                let of_cancel = reason.clone().filter(|_| kind == FailureKind::Cancelled);
                Failure::new(kind, of_cancel.unwrap_or_default()).into()
            }),
            cancel_reason: reason,
            timeout_seconds: job.policy.timeout_ms.map(seconds),
            prerequisites_open: (job.state == State::Pending).then_some(job.prerequisites_open),
            ..Self::default()
        }
    }
}

impl From<Progress> for ProgressView {
    fn from(progress: Progress) -> Self {
        Self {
            percent: progress.percent,
            message: progress.message,
        }
    }
}

fn some<T>(items: Vec<T>) -> Option<Vec<T>> {
    (!items.is_empty()).then_some(items)
}
