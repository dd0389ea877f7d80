//! The messages of the wire, as in the document and in the current contract. Names are read in `snake_case`
//! and `camelCase` and written in `camelCase`; unknown fields are ignored.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

pub(super) use host_wire_kit::secret::Secret;

/// A dispatch that we send, with the fields of the document and of the current contract.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EnvelopeOut<'a> {
    pub(super) task_id: &'a str,
    pub(super) run_id: &'a str,
    pub(super) asset_id: &'a str,
    pub(super) task_key: &'a str,
    pub(super) tenant_id: &'a str,
    pub(super) workspace_id: &'a str,
    pub(super) attempt: u32,
    pub(super) attempt_id: &'a str,
    pub(super) dispatch_id: &'a str,
    pub(super) resources: Resources,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) partition_key: Option<&'a str>,
    pub(super) worker_queue: &'a str,
    pub(super) enqueued_at: String,
    pub(super) deadline: String,
    pub(super) callback_base_url: &'a str,
    pub(super) task_token: &'a Secret,
    pub(super) token_expires_at: String,
    pub(super) heartbeat_interval_ms: u64,
    pub(super) heartbeat_timeout_ms: u64,
    /// The current contract's name for the timeout.
    pub(super) heartbeat_timeout_sec: u64,
    pub(super) cancel_grace_period_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) traceparent: Option<&'a str>,
    pub(super) payload: &'a RawValue,
}

/// What a task needs of a worker: nothing.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Resources {}

/// A dispatch that we receive.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EnvelopeIn {
    #[serde(default, alias = "task_id")]
    pub(super) task_id: Option<String>,
    #[serde(default, alias = "run_id")]
    pub(super) run_id: Option<String>,
    #[serde(alias = "task_key")]
    pub(super) task_key: String,
    #[serde(default, alias = "tenant_id")]
    pub(super) tenant_id: Option<String>,
    #[serde(default, alias = "workspace_id")]
    pub(super) workspace_id: Option<String>,
    pub(super) attempt: u32,
    #[serde(default, alias = "attempt_id")]
    pub(super) attempt_id: Option<String>,
    #[serde(default, alias = "dispatch_id")]
    pub(super) dispatch_id: Option<String>,
    #[serde(default, alias = "partition_key")]
    pub(super) partition_key: Option<String>,
    #[serde(default, alias = "worker_queue")]
    pub(super) worker_queue: Option<String>,
    #[serde(default, alias = "enqueued_at")]
    pub(super) enqueued_at: Option<String>,
    pub(super) deadline: Option<String>,
    #[serde(alias = "callback_base_url")]
    pub(super) callback_base_url: String,
    #[serde(alias = "task_token")]
    pub(super) task_token: Secret,
    #[serde(default, alias = "token_expires_at")]
    pub(super) token_expires_at: Option<String>,
    #[serde(default, alias = "heartbeat_interval_ms")]
    pub(super) heartbeat_interval_ms: Option<u64>,
    #[serde(default, alias = "heartbeat_timeout_ms")]
    pub(super) heartbeat_timeout_ms: Option<u64>,
    #[serde(default, alias = "heartbeat_timeout_sec")]
    pub(super) heartbeat_timeout_sec: Option<u64>,
    #[serde(default, alias = "cancel_grace_period_ms")]
    pub(super) cancel_grace_period_ms: Option<u64>,
    pub(super) traceparent: Option<String>,
    pub(super) payload: Option<Box<RawValue>>,
}

/// A worker has begun.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
#[schema(as = ArcoTaskStartedRequest)]
pub(super) struct TaskStarted {
    /// The number of the attempt; the first is 1.
    pub(super) attempt: i64,
    /// The attempt's id, as the dispatch named it.
    #[serde(alias = "attempt_id", skip_serializing_if = "Option::is_none")]
    pub(super) attempt_id: Option<String>,
    /// The worker, in its own words.
    #[serde(alias = "worker_id", skip_serializing_if = "Option::is_none")]
    pub(super) worker_id: Option<String>,
    /// W3C trace context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) traceparent: Option<String>,
    /// When, according to the worker. It decides nothing.
    #[serde(alias = "started_at", skip_serializing_if = "Option::is_none")]
    pub(super) started_at: Option<String>,
}

/// A worker is alive.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
#[schema(as = ArcoHeartbeatRequest)]
pub(super) struct TaskHeartbeat {
    /// The number of the attempt; the first is 1.
    pub(super) attempt: i64,
    /// The attempt's id, as the dispatch named it.
    #[serde(alias = "attempt_id", skip_serializing_if = "Option::is_none")]
    pub(super) attempt_id: Option<String>,
    /// The worker, in its own words.
    #[serde(alias = "worker_id", skip_serializing_if = "Option::is_none")]
    pub(super) worker_id: Option<String>,
    /// W3C trace context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) traceparent: Option<String>,
    /// When, according to the worker. It decides nothing.
    #[serde(alias = "heartbeat_at", skip_serializing_if = "Option::is_none")]
    pub(super) heartbeat_at: Option<String>,
    /// 0 to 100; other numbers count as the nearest of these.
    #[schema(minimum = 0, maximum = 100)]
    #[serde(
        alias = "progress_pct",
        deserialize_with = "percent",
        skip_serializing_if = "Option::is_none"
    )]
    pub(super) progress_pct: Option<u8>,
    /// What the worker is doing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
}

/// Reads any number as a whole one from 0 to 100.
fn percent<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u8>, D::Error> {
    let number = Option::<f64>::deserialize(value)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0 to 100"
    )]
    Ok(number.map(|number| number.clamp(0.0, 100.0).round() as u8))
}

/// An attempt has ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
#[schema(as = ArcoTaskCompletedRequest)]
pub(super) struct TaskCompleted {
    /// The number of the attempt; the first is 1.
    pub(super) attempt: i64,
    /// The attempt's id, as the dispatch named it.
    #[serde(alias = "attempt_id", skip_serializing_if = "Option::is_none")]
    pub(super) attempt_id: Option<String>,
    /// The worker, in its own words.
    #[serde(alias = "worker_id", skip_serializing_if = "Option::is_none")]
    pub(super) worker_id: Option<String>,
    /// W3C trace context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) traceparent: Option<String>,
    /// `SUCCEEDED`, `FAILED` or `CANCELLED`.
    pub(super) outcome: String,
    /// When, according to the worker. It decides nothing.
    #[serde(alias = "completed_at", skip_serializing_if = "Option::is_none")]
    pub(super) completed_at: Option<String>,
    /// What a successful attempt returned. `result` is another name of it.
    #[schema(value_type = Option<serde_json::Value>)]
    #[serde(alias = "result", skip_serializing_if = "Option::is_none")]
    pub(super) output: Option<Box<RawValue>>,
    /// Why the attempt failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<TaskError>,
    /// What the attempt used.
    #[schema(value_type = Option<TaskMetrics>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metrics: Option<Box<RawValue>>,
    /// What a cancelled attempt was doing.
    #[serde(
        alias = "cancelled_during_phase",
        skip_serializing_if = "Option::is_none"
    )]
    pub(super) cancelled_during_phase: Option<String>,
    /// What a cancelled attempt had done.
    #[schema(value_type = Option<serde_json::Value>)]
    #[serde(alias = "partial_progress", skip_serializing_if = "Option::is_none")]
    pub(super) partial_progress: Option<Box<RawValue>>,
}

/// Why an attempt failed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
#[schema(as = ArcoTaskError)]
pub(super) struct TaskError {
    /// `USER_CODE`, `DATA_QUALITY`, `INFRASTRUCTURE`, `CONFIGURATION`, `TIMEOUT` or `CANCELLED`.
    pub(super) category: String,
    /// One sentence for people.
    pub(super) message: String,
    /// A stack trace.
    #[serde(alias = "stack_trace", skip_serializing_if = "Option::is_none")]
    pub(super) stack_trace: Option<String>,
    /// Whether another attempt may help; the category decides if this is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retryable: Option<bool>,
}

/// What an attempt used. Other fields are kept as they are.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
#[schema(as = ArcoTaskMetrics)]
pub(super) struct TaskMetrics {
    /// CPU time in milliseconds.
    #[serde(alias = "cpu_time_ms", skip_serializing_if = "Option::is_none")]
    pub(super) cpu_time_ms: Option<u64>,
    /// The peak memory, in bytes.
    #[serde(alias = "peak_memory_bytes", skip_serializing_if = "Option::is_none")]
    pub(super) peak_memory_bytes: Option<u64>,
    /// Bytes read.
    #[serde(alias = "io_read_bytes", skip_serializing_if = "Option::is_none")]
    pub(super) io_read_bytes: Option<u64>,
    /// Bytes written.
    #[serde(alias = "io_write_bytes", skip_serializing_if = "Option::is_none")]
    pub(super) io_write_bytes: Option<u64>,
    /// Fuel, which only our own sandbox knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fuel: Option<u64>,
}

/// The answer to `started`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ArcoTaskStartedResponse)]
pub(super) struct StartedAnswer {
    /// Always true.
    pub(super) acknowledged: bool,
    /// The wall clock of the server.
    pub(super) server_time: String,
}

/// The answer to a heartbeat.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ArcoHeartbeatResponse)]
pub(super) struct HeartbeatAnswer {
    /// Always true.
    pub(super) acknowledged: bool,
    /// Whether the worker must stop.
    pub(super) should_cancel: bool,
    /// Why it must stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cancel_reason: Option<String>,
    /// The wall clock of the server.
    pub(super) server_time: String,
}

/// What our worker reads in the answer to a callback.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AnswerIn {
    #[serde(default, alias = "should_cancel")]
    pub(super) should_cancel: bool,
    #[serde(default, alias = "server_time")]
    pub(super) server_time: Option<String>,
}

/// The answer to `completed`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ArcoTaskCompletedResponse)]
pub(super) struct CompletedAnswer {
    /// Always true.
    pub(super) acknowledged: bool,
    /// The outcome that counts, as the worker named it.
    pub(super) final_state: String,
    /// The wall clock of the server.
    pub(super) server_time: String,
}

/// Why a callback is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ArcoCallbackErrorResponse)]
pub(super) struct CallbackError {
    /// The stable code.
    pub(super) error: String,
    /// The code and one sentence for people.
    pub(super) message: String,
    /// The state of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<String>,
    /// The current attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expected_attempt: Option<u32>,
    /// The attempt of the callback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) received_attempt: Option<u32>,
    /// The id of the current attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expected_attempt_id: Option<String>,
    /// The id in the callback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) received_attempt_id: Option<String>,
}

/// The log of one attempt, in the format of the current contract.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ArcoRunLogsRequest)]
pub(super) struct RunLogs {
    /// The key of the task.
    #[serde(alias = "task_key")]
    pub(super) task_key: String,
    /// The number of the attempt; the first is 1.
    pub(super) attempt: u32,
    /// What it has written.
    #[serde(default)]
    pub(super) stdout: String,
    /// What it has written as errors.
    #[serde(default)]
    pub(super) stderr: String,
}

/// The answer to a log.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ArcoRunLogsResponse)]
pub(super) struct RunLogsAnswer {
    /// Where the log is.
    pub(super) path: String,
    /// The size of both texts.
    pub(super) size_bytes: u64,
}

pub(super) const SUCCEEDED: &str = "SUCCEEDED";
pub(super) const FAILED: &str = "FAILED";
pub(super) const CANCELLED: &str = "CANCELLED";
pub(super) const RUNNING: &str = "RUNNING";
