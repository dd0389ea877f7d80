//! Jobs and attempts as the API shows them. What a job does not have is left out.

use std::collections::BTreeMap;
use std::fmt;

use host_core::failure::{Category, Failure, FailureKind};
use host_core::id::{JobId, NodeId};
use host_core::job::{Lifecycle, State};
use host_core::json::JsonText;
use host_core::lease::Lease;
use host_core::name::address;
use host_core::node::NodeRecord;
use host_core::outcome::{Attempt, Meter, Progress};
use host_core::query::{JobDetail, JobSummary};
use host_core::seconds::Seconds;
use host_core::time::Time;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// A job. Lists leave out what is large: params, result and the rest that does not change.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Job)]
pub(super) struct JobView {
    /// Its id.
    #[schema(value_type = String)]
    id: JobId,
    /// pending, scheduled, available, running, retryable, completed, cancelled or discarded.
    #[schema(value_type = String)]
    state: &'static str,
    /// The handler that executes it; `python#send_email` is one of a foreign runner.
    handler: String,
    /// The queue it waits in.
    queue: String,
    /// 0 (first) to 9.
    priority: u8,
    /// The current or latest attempt; 0 before the first.
    attempt: u32,
    /// The most attempts that count.
    max_attempts: u32,
    /// How many attempts count so far.
    attempts_charged: u32,
    /// How many attempts do not count because they were lost through no fault of the job.
    attempts_lost: u32,
    /// How long it waited, in milliseconds: all the time until now or its end without an attempt.
    waited_ms: u64,
    /// How long its attempts took together, in milliseconds.
    ran_ms: u64,
    /// The node that runs it, if others may share the store. Of one whose worker holds it by heartbeats,
    /// none is shown: they may go on at any node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<NamedNode>,
    /// How it came: `http` or a protocol's name.
    wire: String,
    /// When it was accepted (RFC 3339).
    enqueued_at: String,
    /// Not before this instant, or when its next attempt is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_at: Option<String>,
    /// No attempt after this instant.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<String>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<String>,
    /// When the foreign worker that runs it last said that it is alive.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_heartbeat_at: Option<String>,
    /// When its cancel was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    cancel_requested_at: Option<String>,
    /// Why, in their words.
    #[serde(skip_serializing_if = "Option::is_none")]
    cancel_reason: Option<String>,
    /// The longest an attempt may take, if the job says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_seconds: Option<f64>,
    /// When it is forgotten, if it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept_until: Option<String>,
    /// How long it is kept after it has completed or was cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    retention_seconds: Option<f64>,
    /// How long it is kept after it was discarded.
    #[serde(skip_serializing_if = "Option::is_none")]
    retention_discarded_seconds: Option<f64>,
    /// How many jobs it still waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    prerequisites_open: Option<u32>,
    /// Why it does not start, if no node can run it now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waits_because: Option<String>,
    /// The key that makes it unique in its queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    unique_key: Option<String>,
    /// The jobs it waits or waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    depends_on: Option<Vec<JobId>>,
    /// The id a foreign orchestrator knows it by.
    #[serde(skip_serializing_if = "Option::is_none")]
    external_id: Option<String>,
    /// W3C trace context.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_context: Option<BTreeMap<String, String>>,
    /// Whatever else its sender attached.
    #[serde(skip_serializing_if = "Option::is_none")]
    attributes: Option<BTreeMap<String, String>>,
    /// How far its attempt said it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<ProgressView>,
    /// What the handler is called with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    params: Option<Box<RawValue>>,
    /// What it returned, or had done until it was cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    result: Option<Box<RawValue>>,
    /// Why its latest attempt did not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<FailureView>,
}

/// A node of those that share the store.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct NamedNode {
    /// Its id.
    #[schema(value_type = String)]
    id: NodeId,
    /// The name of its machine, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

impl NamedNode {
    /// Names a node as it is among these.
    pub(super) fn of(nodes: &[NodeRecord], id: NodeId) -> Self {
        let node = nodes.iter().find(|node| node.id == id);
        let info = node.and_then(|node| node.info.as_ref());
        let name = info.map(|info| info.name.clone());
        Self {
            id,
            name: name.filter(|name| !name.is_empty()),
        }
    }

    /// Returns whether it is the node with this id.
    pub(super) fn is(&self, id: NodeId) -> bool {
        self.id == id
    }
}

impl fmt::Display for NamedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name} ({})", self.id),
            None => write!(f, "{}", self.id),
        }
    }
}

/// How far an attempt says it is.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Progress)]
pub(super) struct ProgressView {
    /// 0 to 100, if the handler knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    percent: Option<f32>,
    /// What it is doing.
    message: String,
}

/// How an attempt failed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Failure)]
pub(super) struct FailureView {
    /// The cause; `docs/errors.md` lists all.
    #[schema(value_type = String)]
    kind: FailureKind,
    /// Who has to act.
    #[schema(value_type = String)]
    category: Category,
    /// One sentence for a person. Lists leave it out.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    message: String,
    /// The handler's own name for the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    user_kind: Option<String>,
    /// The handler's own code.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    /// More data, as the handler gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    details: Option<Box<RawValue>>,
    /// A stack trace of the guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    stack: Option<String>,
    /// Whether another attempt may follow.
    retryable: bool,
}

/// One attempt; one that runs has no end, and its numbers are those it last reported.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Attempt)]
pub(super) struct AttemptView {
    /// 1 for the first.
    number: u32,
    /// Who executed it: `cell-3`, `python/1`.
    executor: String,
    /// The node that runs it, as long as it runs, if others may share the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<NamedNode>,
    /// The component it was executed with.
    #[serde(skip_serializing_if = "Option::is_none")]
    component: Option<String>,
    /// Which revision of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u32>,
    /// When it was claimed.
    started_at: String,
    /// When its end was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<String>,
    /// From claim to recorded end.
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    /// running, completed, failed, retry, cancelled or lost.
    outcome: String,
    /// Why, if it did not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<FailureView>,
    /// Fuel, in wasmtime's units.
    fuel: u64,
    /// CPU time of the guest and of the host calls made for it.
    cpu_ms: f64,
    /// The most linear memory it had at once.
    peak_memory_bytes: u64,
}

impl JobView {
    /// Shows a job as a list has it.
    pub(super) fn summary(job: JobSummary, live: Option<Progress>, now: Time) -> Self {
        let mut view = Self::new(&job.lifecycle, job.ran_ms, job.wire, now);
        view.progress = live.map(ProgressView::from);
        if let Some(failure) = &mut view.failure {
            failure.user_kind = job.user_kind;
        }
        view
    }

    /// Shows all of a job; `live` is what its running attempt said.
    pub(super) fn detail(job: JobDetail, live: Option<Progress>, now: Time) -> Self {
        let mut view = Self::new(&job.lifecycle, job.ran_ms, job.payload.wire, now);
        let kept = job.lifecycle.policy.retention;
        view.kept_until = job.lifecycle.kept_until().map(Time::to_rfc3339);
        view.retention_seconds = Some(seconds(kept.ms));
        view.retention_discarded_seconds = Some(seconds(kept.discarded_ms));
        view.unique_key = job.unique_key;
        view.depends_on = some(job.depends_on);
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

    fn new(job: &Lifecycle, ended_ms: u64, wire: String, now: Time) -> Self {
        let runs = job.lease.as_ref();
        let ran_ms = ended_ms + runs.map_or(0, |lease| now.since_ms(lease.granted_at));
        let exists_ms = job.finished_at.unwrap_or(now).since_ms(job.enqueued_at);
        let instant = |at: Option<Time>| at.map(Time::to_rfc3339);
        let cancel = job.cancel.as_ref();
        let reason = cancel.and_then(|cancel| cancel.reason.clone());
        Self {
            id: job.id,
            state: job.state.as_str(),
            handler: address(job.runner.as_ref(), &job.handler).into_owned(),
            queue: job.queue.to_string(),
            priority: job.priority,
            attempt: job.attempt,
            max_attempts: job.policy.max_attempts,
            attempts_charged: job.attempts_charged(),
            attempts_lost: job.attempts_uncharged,
            waited_ms: exists_ms.saturating_sub(ran_ms),
            ran_ms,
            node: None,
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
            kept_until: None,
            retention_seconds: None,
            retention_discarded_seconds: None,
            prerequisites_open: (job.state == State::Pending).then_some(job.prerequisites_open),
            waits_because: None,
            unique_key: None,
            depends_on: None,
            external_id: None,
            trace_context: None,
            attributes: None,
            progress: None,
            params: None,
            result: None,
        }
    }
}

/// Returns a duration as the API writes it.
pub(super) fn seconds(ms: u64) -> f64 {
    Seconds { ms }.into()
}

impl AttemptView {
    /// Shows the attempt that runs, if one does, and what it has used as far as is known.
    pub(super) fn running(job: &Lifecycle, meter: Meter, node: Option<NamedNode>) -> Option<Self> {
        let lease = job.lease.as_ref()?;
        Some(Self {
            number: job.attempt,
            executor: lease.worker.clone(),
            node,
            component: None,
            revision: None,
            started_at: lease.granted_at.to_rfc3339(),
            finished_at: None,
            duration_ms: None,
            outcome: "running".to_owned(),
            failure: None,
            fuel: meter.fuel,
            cpu_ms: cpu_ms(meter),
            peak_memory_bytes: meter.peak_memory_bytes,
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "CPU time of one attempt")]
fn cpu_ms(meter: Meter) -> f64 {
    meter.cpu_us as f64 / 1000.0
}

impl From<Attempt> for AttemptView {
    fn from(attempt: Attempt) -> Self {
        let ran_ms = attempt.ran_ms();
        let (component, revision) = attempt.revision.unzip();
        Self {
            number: attempt.number,
            executor: attempt.executor,
            node: None,
            component,
            revision,
            started_at: attempt.started_at.to_rfc3339(),
            finished_at: Some(attempt.finished_at.to_rfc3339()),
            duration_ms: Some(ran_ms),
            outcome: attempt.outcome,
            failure: attempt.failure.map(FailureView::from),
            fuel: attempt.meter.fuel,
            cpu_ms: cpu_ms(attempt.meter),
            peak_memory_bytes: attempt.meter.peak_memory_bytes,
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

impl From<Failure> for FailureView {
    fn from(failure: Failure) -> Self {
        Self {
            kind: failure.kind,
            category: failure.category(),
            retryable: failure.is_retryable(),
            message: failure.message,
            user_kind: failure.user_kind,
            code: failure.code,
            details: failure.details.map(raw),
            stack: failure.stack,
        }
    }
}

/// Shows a document that is kept as text; `null` if it is not JSON, which no request can cause.
pub(super) fn raw(text: JsonText) -> Box<RawValue> {
    RawValue::from_string(text.0).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

fn some<T>(items: Vec<T>) -> Option<Vec<T>> {
    (!items.is_empty()).then_some(items)
}
