//! Reads and checks a dispatch. Pure.

use std::fmt;

use host_core::json::JsonText;
use host_core::name::Name;
use host_core::port::ForeignJob;
use host_core::time::Time;
use host_core::trace::{Parent, TRACEPARENT};
use host_wire_kit::http_client::{BaseUrl, Origin};
use host_wire_kit::session::Moment;
use serde::Serialize;
use serde_json::value::RawValue;

use super::callbacks::Callback;
use crate::NAME;
use crate::messages::{EnvelopeIn, Secret};
use crate::refusals::Code;
use crate::task_id::ID_BYTES_MAX;

/// How long a worker may be silent by default, in milliseconds.
const HEARTBEAT_TIMEOUT_MS: u64 = 90_000;

/// How long a cancelled task has to stop by default, in milliseconds.
const CANCEL_GRACE_MS: u64 = 30_000;

/// The longest time that a dispatch may set, in milliseconds.
const TIME_MS_MAX: u64 = 24 * 3_600_000;

/// The shortest interval between heartbeats, in milliseconds.
const INTERVAL_MS_MIN: u64 = 50;

/// How far the control plane's wall clock is ahead of ours, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Skew(i64);

impl Skew {
    pub(super) fn of(server: Option<Time>, ours: Time) -> Self {
        Self(server.map_or(0, |server| server.0.saturating_sub(ours.0)))
    }

    /// Returns an instant of the control plane's clock by our wall clock.
    pub(super) fn ours(self, theirs: Time) -> Time {
        Time(theirs.0.saturating_sub(self.0))
    }
}

/// A task to execute.
#[derive(Clone)]
pub(super) struct Order {
    /// Identifies the dispatch; a repetition has the same key.
    pub(super) key: String,
    pub(super) task_id: String,
    pub(super) task_key: String,
    pub(super) attempt: u32,
    pub(super) attempt_id: String,
    pub(super) tenant: Option<String>,
    pub(super) workspace: Option<String>,
    pub(super) run: Option<String>,
    pub(super) partition: Option<String>,
    pub(super) queue: Option<String>,
    pub(super) base: BaseUrl,
    /// The path of the task's callbacks below the base.
    pub(super) path: String,
    pub(super) token: Secret,
    /// Instants of the control plane's clock.
    pub(super) token_expires_at: Option<Time>,
    pub(super) deadline: Option<Time>,
    pub(super) enqueued_at: Option<Time>,
    pub(super) interval_ms: u64,
    pub(super) timeout_ms: u64,
    pub(super) grace_ms: u64,
    pub(super) traceparent: Option<String>,
    /// `None` if the dispatch does not name a valid handler.
    pub(super) handler: Option<Name>,
    pub(super) params: JsonText,
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Order({}, attempt {})", self.task_id, self.attempt)
    }
}

/// The largest result that is reported, in bytes.
const RESULT_BYTES_MAX: u64 = 16 << 20;

impl Order {
    /// Makes a callback of the task.
    pub(super) fn callback(&self, verb: &str, message: &impl Serialize) -> Callback {
        Callback {
            base: self.base.clone(),
            path: format!("{}/{verb}", self.path),
            token: self.token.clone(),
            body: serde_json::to_string(message).unwrap_or_default(),
        }
    }

    /// Makes the job to execute. `None` if the dispatch does not name a valid handler.
    pub(super) fn job(&self, at: Moment, skew: Skew, wants_log: bool) -> Option<ForeignJob> {
        let name = self.handler.clone()?;
        let deadline = self.deadline.map(|deadline| {
            let left_ms = skew.ours(deadline).since_ms(at.wall);
            at.now.plus_ms(left_ms)
        });
        let attribute = |name: &str, value: &Option<String>| {
            let value = value.as_ref()?;
            Some((format!("{NAME}.{name}"), value.chars().take(256).collect()))
        };
        let attributes = [
            attribute("tenant_id", &self.tenant),
            attribute("workspace_id", &self.workspace),
            attribute("run_id", &self.run),
            attribute("partition_key", &self.partition),
        ];
        let trace = self.traceparent.iter();
        let job = ForeignJob::new(NAME, &self.task_id, name, self.params.clone());
        Some(ForeignJob {
            request_id: self.key.clone(),
            queue: self.queue.clone().unwrap_or(job.queue),
            attempt: self.attempt,
            enqueued_at: self.enqueued_at,
            deadline,
            trace: trace
                .filter(|it| Parent::read(it).is_some())
                .map(|it| (TRACEPARENT.to_owned(), it.clone()))
                .collect(),
            worker_id: Some(self.base.origin().to_string()),
            attributes: attributes.into_iter().flatten().collect(),
            wants_log,
            span: "arco.task",
            result_bytes_max: RESULT_BYTES_MAX,
            ..job
        })
    }
}

/// Why a dispatch is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OrderError {
    pub(super) code: Code,
    pub(super) message: String,
}

fn invalid(message: impl Into<String>) -> OrderError {
    OrderError {
        code: Code::Envelope,
        message: message.into(),
    }
}

impl Order {
    /// Reads the body of a dispatch, whose callbacks may go to `origins`.
    pub(super) fn read(body: &[u8], origins: &[Origin]) -> Result<Self, OrderError> {
        let envelope: EnvelopeIn = host_wire_kit::json::check(body)
            .map_err(|fault| invalid(format!("body is not valid JSON: {}", fault.message)))
            .and_then(|()| {
                let read = host_http::json::read_object(body);
                read.map_err(|error| invalid(error.to_string()))
            })?;
        let base = base(&envelope.callback_base_url, origins)?;
        let task_id = match &envelope.task_id {
            Some(id) => id.clone(),
            // Dispatches of older control planes name the task by its key.
            None => envelope.task_key.clone(),
        };
        for (field, text) in [("taskId", &task_id), ("taskKey", &envelope.task_key)] {
            if text.is_empty() || text.len() > ID_BYTES_MAX {
                let range = format!("{field}: must have 1 to {ID_BYTES_MAX} bytes");
                return Err(invalid(range));
            }
        }
        if envelope.attempt == 0 {
            return Err(invalid("attempt: must be at least 1"));
        }
        if !is_token(envelope.task_token.expose()) {
            return Err(invalid("taskToken: not a valid token"));
        }
        let is_current = envelope.dispatch_id.is_some() && envelope.heartbeat_interval_ms.is_none();
        let prefix = if is_current { "/api/v1" } else { "/v1" };
        let path = format!("{prefix}/tasks/{}", segment(&task_id));
        Ok(Self::new(envelope, base, task_id, path))
    }

    fn new(envelope: EnvelopeIn, base: BaseUrl, task_id: String, path: String) -> Self {
        let timeout_ms = timeout_ms(&envelope);
        let interval_ms = envelope.heartbeat_interval_ms.unwrap_or(timeout_ms / 3);
        let (handler, params) = handler(&envelope.task_key, envelope.payload.as_deref());
        let instant = |text: &Option<String>| Time::parse_rfc3339(text.as_deref()?);
        let attempt = envelope.attempt;
        let attempt_id = envelope.attempt_id.clone();
        Self {
            key: key(&envelope, base.origin(), &task_id),
            attempt_id: attempt_id.unwrap_or_else(|| format!("{task_id}:{attempt}")),
            task_id,
            attempt,
            base,
            path,
            token_expires_at: instant(&envelope.token_expires_at),
            deadline: instant(&envelope.deadline),
            enqueued_at: instant(&envelope.enqueued_at),
            // A lost heartbeat can then be made up for.
            interval_ms: interval_ms.clamp(INTERVAL_MS_MIN, timeout_ms / 2),
            timeout_ms,
            grace_ms: envelope
                .cancel_grace_period_ms
                .unwrap_or(CANCEL_GRACE_MS)
                .min(TIME_MS_MAX),
            task_key: envelope.task_key,
            tenant: envelope.tenant_id,
            workspace: envelope.workspace_id,
            run: envelope.run_id,
            partition: envelope.partition_key,
            queue: envelope.worker_queue,
            token: envelope.task_token,
            traceparent: envelope.traceparent,
            handler,
            params,
        }
    }
}

fn timeout_ms(envelope: &EnvelopeIn) -> u64 {
    let of_seconds = envelope
        .heartbeat_timeout_sec
        .map(|seconds| seconds.saturating_mul(1_000));
    let stated = envelope.heartbeat_timeout_ms.or(of_seconds);
    stated
        .unwrap_or(HEARTBEAT_TIMEOUT_MS)
        .clamp(2 * INTERVAL_MS_MIN, TIME_MS_MAX)
}

/// Returns the key of a dispatch. Only one of several dispatches with the same key is executed. The same
/// control plane may write its URL in several ways.
fn key(envelope: &EnvelopeIn, origin: &Origin, task_id: &str) -> String {
    if let Some(id) = &envelope.dispatch_id {
        return format!("{origin} {id}");
    }
    let run = envelope.run_id.as_deref().unwrap_or_default();
    format!("{origin} {run} {task_id} {}", envelope.attempt)
}

fn base(text: &str, origins: &[Origin]) -> Result<BaseUrl, OrderError> {
    let refused = |why: String| OrderError {
        code: Code::Origin,
        message: format!("callbackBaseUrl: {why}"),
    };
    let base: BaseUrl = text
        .parse()
        .map_err(|error| refused(format!("invalid URL: {error}")))?;
    if origins.contains(base.origin()) {
        return Ok(base);
    }
    let origin = base.origin();
    Err(refused(format!("callbacks to {origin} are not allowed")))
}

/// Returns whether a header can carry this token.
fn is_token(text: &str) -> bool {
    (1..=8_192).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Returns the handler and its params: those that the payload names, or the task key and the payload.
fn handler(task_key: &str, payload: Option<&RawValue>) -> (Option<Name>, JsonText) {
    #[derive(Default, serde::Deserialize)]
    struct Payload<'a> {
        #[serde(default, borrow)]
        handler: Option<&'a RawValue>,
        #[serde(default, borrow)]
        params: Option<&'a RawValue>,
    }
    let text = payload.map_or("null", RawValue::get);
    let read: Payload<'_> = serde_json::from_str(text).unwrap_or_default();
    let named = read
        .handler
        .and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
    let object = read.params.filter(|raw| raw.get().starts_with('{'));
    let params = match object {
        Some(object) => object.get(),
        None if text == "null" => "{}",
        None => text,
    };
    let name = named.as_deref().unwrap_or(task_key).parse().ok();
    (name, JsonText(params.to_owned()))
}

/// Writes a segment of a path, with all but plain characters escaped.
pub(super) fn segment(text: &str) -> String {
    use fmt::Write as _;
    let mut written = String::with_capacity(text.len());
    for byte in text.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if is_plain && text != "." && text != ".." {
            written.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(written, "%{byte:02X}");
        }
    }
    written
}
