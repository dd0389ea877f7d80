//! An attempt as the API shows it, and how it failed.

use host_core::failure::Failure;
use host_core::job::Lifecycle;
use host_core::outcome::{Attempt, Meter, WorkerReport};
use host_core::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::node::NamedNode;
use crate::raw;
use crate::requests::RequestsView;
use crate::words::{AttemptOutcome, FailureCategory, FailureWord, Withheld};

/// An attempt. One that is running has no end yet; its numbers are the latest reported.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Attempt)]
pub struct AttemptView {
    /// 1 for the first.
    pub number: u32,
    /// Who executed it: `cell-3`, `python/1`.
    #[serde(default)]
    #[schema(required = true)]
    pub executor: String,
    /// The node that runs it, while it runs, if other nodes may share the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<NamedNode>,
    /// The component it was executed with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    /// Which revision of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<u32>,
    /// When it was claimed.
    #[serde(default)]
    #[schema(required = true)]
    pub started_at: String,
    /// When its end was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// From claim to recorded end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// How it ended, or that it runs.
    #[serde(default)]
    #[schema(value_type = AttemptOutcome, required = true)]
    pub outcome: String,
    /// Why, if it did not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureView>,
    /// `failure` if the caller may not see more of it than its kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<Vec<Withheld>>)]
    pub withheld: Vec<String>,
    /// Fuel, in wasmtime's units.
    #[serde(default)]
    #[schema(required = true)]
    pub fuel: u64,
    /// CPU time of the guest and of the host calls made for it.
    #[serde(default)]
    #[schema(required = true)]
    pub cpu_ms: f64,
    /// Its peak linear memory.
    #[serde(default)]
    #[schema(required = true)]
    pub peak_memory_bytes: u64,
    /// What a foreign worker reports about itself and the end of the attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerReportView>,
    /// Its requests to HTTP servers, once it has ended, if it made some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<RequestsView>,
}

/// What a foreign worker reports about itself and the end of its attempt, as far as its protocol has it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = WorkerReport)]
pub struct WorkerReportView {
    /// The name that it gives itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When the attempt ended, by the worker's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    /// How many bytes the attempt read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// How many bytes the attempt wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
}

/// How an attempt failed.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Failure)]
pub struct FailureView {
    /// The cause; `docs/errors.md` explains all.
    #[schema(value_type = FailureWord)]
    pub kind: String,
    /// Who has to act.
    #[serde(default)]
    #[schema(value_type = FailureCategory, required = true)]
    pub category: String,
    /// One sentence for a person. Lists leave it out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub message: String,
    /// The handler's own name for the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_kind: Option<String>,
    /// The handler's own code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// More data from the handler.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub details: Option<Box<RawValue>>,
    /// A stack trace of the guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<String>,
    /// Whether another attempt may follow.
    #[serde(default)]
    #[schema(required = true)]
    pub retryable: bool,
}

impl AttemptView {
    /// Shows the running attempt, if there is one, and its latest known usage.
    pub fn running(job: &Lifecycle, meter: Meter, node: Option<NamedNode>) -> Option<Self> {
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
            withheld: Vec::new(),
            fuel: meter.fuel,
            cpu_ms: cpu_ms(meter),
            peak_memory_bytes: meter.peak_memory_bytes,
            worker: None,
            requests: None,
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
            withheld: Vec::new(),
            fuel: attempt.meter.fuel,
            cpu_ms: cpu_ms(attempt.meter),
            peak_memory_bytes: attempt.meter.peak_memory_bytes,
            worker: attempt.worker.map(|it| WorkerReportView::from(*it)),
            requests: attempt.requests.map(|it| RequestsView::from(*it)),
        }
    }
}

impl From<WorkerReport> for WorkerReportView {
    fn from(report: WorkerReport) -> Self {
        Self {
            name: report.name,
            ended_at: report.ended_at.map(Time::to_rfc3339),
            read_bytes: report.read_bytes,
            written_bytes: report.written_bytes,
        }
    }
}

impl From<Failure> for FailureView {
    fn from(failure: Failure) -> Self {
        Self {
            kind: failure.kind.as_str().to_owned(),
            category: failure.category().as_str().to_owned(),
            retryable: failure.is_retryable(),
            message: failure.message,
            user_kind: failure.user_kind,
            code: failure.code,
            details: failure.details.map(raw),
            stack: failure.stack,
        }
    }
}
