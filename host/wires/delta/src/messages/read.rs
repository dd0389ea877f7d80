//! Reads what a runner sends to its orchestrator. Lenient: unknown fields are ignored, and what only
//! informs is clamped; what decides is checked. Pure.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use host_core::time::Time;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::messages::fields::{self, Fields, cut, found, text, within_bytes, wrong};
use crate::messages::lease_id::{LEASE_ID_BYTES_MAX, LeaseText};
use crate::refusals::{Code, WireRefusal};
use crate::tags::{self, TAG_BYTES_MAX, TAGS_MAX};

/// The longest id of a runner or job, in bytes.
const ID_BYTES_MAX: usize = 128;

/// The longest wait for a job, in seconds, and the wait of a runner that names none.
pub(crate) const WAIT_SECONDS_MAX: u64 = 60;
const WAIT_SECONDS: u64 = 30;

/// The longest texts of a progress, in bytes.
const STEP_BYTES_MAX: usize = 256;
const MESSAGE_BYTES_MAX: usize = 1_024;

/// The most artifacts that are kept, and the longest address and type of one, in bytes.
pub(crate) const ARTIFACTS_MAX: usize = 1_000;
pub(crate) const URI_BYTES_MAX: usize = 2 << 10;
const KIND_BYTES_MAX: usize = 128;

/// The longest summary that is kept, in bytes.
pub(crate) const SUMMARY_BYTES_MAX: usize = 256 << 10;

/// The longest instant, in bytes.
const INSTANT_BYTES_MAX: usize = 64;

/// A runner asks for a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) runner_id: String,
    pub(crate) capabilities: BTreeSet<String>,
    pub(crate) wait_seconds: u64,
}

/// Which lease a message is about, and which runner sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) lease_id: LeaseText,
    pub(crate) runner_id: String,
}

/// A runner is alive.
#[derive(Debug, PartialEq)]
pub(crate) struct HeartbeatIn {
    pub(crate) about: About,
    pub(crate) percent: Option<f32>,
    pub(crate) current_step: Option<String>,
    pub(crate) step_index: Option<u64>,
    pub(crate) message: Option<String>,
    pub(crate) bytes_sent: Option<u64>,
    /// When its runner says that it was sent.
    pub(crate) ts: Option<Time>,
    /// How long the answer may wait for a cancel.
    pub(crate) wait_seconds: u64,
    /// What was clamped or ignored.
    pub(crate) warnings: Vec<String>,
}

/// How a job has ended, as its runner reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Succeeded,
    Failed,
    TimedOut,
    Canceled,
}

/// A reference to something that a runner has produced. The address is text and never followed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Artifact {
    pub(crate) r#type: String,
    pub(crate) uri: String,
}

/// A runner has finished, or has stopped because of a cancel.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EndIn {
    pub(crate) about: About,
    pub(crate) status: Status,
    pub(crate) exit_code: Option<i32>,
    pub(crate) started_at: Option<String>,
    pub(crate) finished_at: Option<String>,
    pub(crate) artifacts: Vec<Artifact>,
    pub(crate) summary: Option<String>,
    /// What was cut or contradicts itself.
    pub(crate) warnings: Vec<String>,
}

impl Status {
    pub(crate) const ALL: [Self; 4] = [
        Self::Succeeded,
        Self::Failed,
        Self::TimedOut,
        Self::Canceled,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "SUCCEEDED",
            Self::Failed => "FAILED",
            Self::TimedOut => "TIMED_OUT",
            Self::Canceled => "CANCELED",
        }
    }
}

/// Reads a request for a job.
pub(crate) fn ask(body: &[u8]) -> Result<Ask, WireRefusal> {
    let fields = fields::read(body)?;
    let wait: Option<u64> = fields.optional("wait_seconds", "a whole number of seconds")?;
    Ok(Ask {
        runner_id: runner_id(&fields)?,
        capabilities: capabilities(&fields)?,
        wait_seconds: wait.unwrap_or(WAIT_SECONDS).min(WAIT_SECONDS_MAX),
    })
}

/// Reads the acknowledgement of a lease.
pub(crate) fn ack(body: &[u8]) -> Result<About, WireRefusal> {
    let fields = fields::read(body)?;
    kind(&fields, "AckLease")?;
    let given_id: Option<String> = fields.optional("job_id", "a string")?;
    let job_id = given_id.map(|id| within_bytes("job_id", id, ID_BYTES_MAX));
    let (about, job_id) = (about(&fields)?, job_id.transpose()?);
    if let (Some((job, _)), Some(job_id)) = (about.lease_id.parse(), job_id)
        && job_id != job.to_string()
    {
        let message = "job_id: not the job of this lease";
        return Err(WireRefusal::new(Code::FieldMismatch, message));
    }
    Ok(about)
}

/// Reads a heartbeat. Its progress never makes it fail.
pub(crate) fn heartbeat(body: &[u8]) -> Result<HeartbeatIn, WireRefusal> {
    let fields = fields::read(body)?;
    kind(&fields, "Heartbeat")?;
    let wait: Option<u64> = fields.optional("wait_seconds", "a whole number of seconds")?;
    let mut heartbeat = HeartbeatIn {
        about: about(&fields)?,
        percent: None,
        current_step: None,
        step_index: None,
        message: None,
        bytes_sent: None,
        ts: fields.raw("ts").and_then(sent_at),
        wait_seconds: wait.unwrap_or(0).min(WAIT_SECONDS_MAX),
        warnings: Vec::new(),
    };
    heartbeat.read_progress(fields.raw("progress"));
    heartbeat.read_cursor(fields.raw("log_cursor"));
    Ok(heartbeat)
}

/// Reads when a message was sent. An invalid time is ignored.
fn sent_at(raw: &RawValue) -> Option<Time> {
    let text: String = serde_json::from_str(raw.get()).ok()?;
    Time::parse_rfc3339(&text)
}

impl HeartbeatIn {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a percentage needs no more digits"
    )]
    fn read_progress(&mut self, raw: Option<&RawValue>) {
        let Some(fields) = self.inner("progress", raw) else {
            return;
        };
        let percent: Option<f64> = self.value(&fields, "progress", "percent", "a number");
        if let Some(percent) = percent {
            let clamped = percent.clamp(0.0, 100.0);
            if clamped.to_bits() != percent.to_bits() && !(percent == 0.0) {
                self.warn("progress.percent: must be 0–100; clamped");
            }
            self.percent = Some(clamped as f32);
        }
        self.current_step = self.value(&fields, "progress", "current_step", "a string");
        self.step_index = self.value(&fields, "progress", "step_index", "a whole number");
        self.message = self.value(&fields, "progress", "message", "a string");
        for (name, text, most) in [
            ("current_step", &mut self.current_step, STEP_BYTES_MAX),
            ("message", &mut self.message, MESSAGE_BYTES_MAX),
        ] {
            if text.as_mut().is_some_and(|text| cut(text, most)) {
                let warning = format!("progress.{name}: truncated to {most} bytes");
                self.warnings.push(warning);
            }
        }
    }

    fn read_cursor(&mut self, raw: Option<&RawValue>) {
        if let Some(fields) = self.inner("log_cursor", raw) {
            self.bytes_sent = self.value(&fields, "log_cursor", "bytes_sent", "a whole number");
        }
    }

    fn inner<'a>(&mut self, name: &str, raw: Option<&'a RawValue>) -> Option<Fields<'a>> {
        let fields = Fields::of(raw?.get());
        let warning = |found| format!("{name}: expected an object, found {found}; ignored");
        fields.map_err(|found| self.warn(&warning(found))).ok()
    }

    fn value<'a, T: Deserialize<'a>>(
        &mut self,
        fields: &Fields<'a>,
        of: &str,
        name: &str,
        wanted: &str,
    ) -> Option<T> {
        let value = fields.optional(name, wanted);
        value.unwrap_or_else(|wrong| {
            self.warn(&format!("{}; ignored", wrong.within(of)));
            None
        })
    }

    fn warn(&mut self, warning: &str) {
        self.warnings.push(warning.to_owned());
    }
}

/// Reads a completion, in either dialect: a time of the end may stand in `timings` or beside it.
pub(crate) fn complete(body: &[u8]) -> Result<EndIn, WireRefusal> {
    let fields = fields::read(body)?;
    kind(&fields, "Complete")?;
    end(&fields, "status")
}

/// Reads the answer to a cancel.
pub(crate) fn cancel_ack(body: &[u8]) -> Result<EndIn, WireRefusal> {
    let fields = fields::read(body)?;
    kind(&fields, "CancelAck")?;
    let end = end(&fields, "final_status")?;
    if end.status != Status::Canceled {
        let message = format!(
            "final_status: expected CANCELED, found {}",
            end.status.as_str()
        );
        return Err(WireRefusal::new(Code::FieldValue, message));
    }
    Ok(end)
}

fn end(fields: &Fields<'_>, status: &str) -> Result<EndIn, WireRefusal> {
    let mut warnings = Vec::new();
    let mut end = EndIn {
        about: about(fields)?,
        status: read_status(fields, status)?,
        exit_code: exit_code(fields)?,
        started_at: None,
        finished_at: instant(fields, "finished_at")?,
        artifacts: artifacts(fields.raw("artifacts"), &mut warnings)?,
        summary: fields.optional("summary", "a string")?,
        warnings,
    };
    if let Some(raw) = fields.raw("timings") {
        let timings =
            Fields::of(raw.get()).map_err(|found| wrong("timings", "an object", &found))?;
        end.started_at = instant(&timings, "started_at")?;
        end.finished_at = instant(&timings, "finished_at")?.or(end.finished_at);
    }
    if end
        .summary
        .as_mut()
        .is_some_and(|it| cut(it, SUMMARY_BYTES_MAX))
    {
        let warning = format!("summary: truncated to {SUMMARY_BYTES_MAX} bytes");
        end.warnings.push(warning);
    }
    if end.status == Status::Succeeded && end.exit_code.is_some_and(|code| code != 0) {
        let warning = "exit_code: not 0 although the status is SUCCEEDED";
        end.warnings.push(warning.to_owned());
    }
    Ok(end)
}

fn kind(fields: &Fields<'_>, expected: &str) -> Result<(), WireRefusal> {
    let kind: Option<String> = fields.optional("type", "a string")?;
    match kind {
        Some(kind) if kind != expected => {
            let found = kind.len();
            let message = format!("type: expected {expected}, found another of {found} bytes");
            Err(WireRefusal::new(Code::FieldValue, message))
        }
        _ => Ok(()),
    }
}

/// Finds the lease that a message names, whatever else is wrong with it.
pub(crate) fn lease_id(body: &[u8]) -> Option<LeaseText> {
    let fields = fields::read(body).ok()?;
    let text = text(&fields, "lease_id", LEASE_ID_BYTES_MAX).ok()?;
    Some(LeaseText(text))
}

fn about(fields: &Fields<'_>) -> Result<About, WireRefusal> {
    Ok(About {
        lease_id: LeaseText(text(fields, "lease_id", LEASE_ID_BYTES_MAX)?),
        runner_id: runner_id(fields)?,
    })
}

fn runner_id(fields: &Fields<'_>) -> Result<String, WireRefusal> {
    check_runner_id(text(fields, "runner_id", ID_BYTES_MAX)?)
}

/// Checks the name of a runner, which people see.
pub(crate) fn check_runner_id(id: String) -> Result<String, WireRefusal> {
    if (1..=ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(id);
    }
    let message = format!(
        "runner_id: expected 1 to {ID_BYTES_MAX} printable ASCII characters without blanks, found {} bytes",
        id.len()
    );
    Err(WireRefusal::new(Code::FieldValue, message))
}

fn capabilities(fields: &Fields<'_>) -> Result<BTreeSet<String>, WireRefusal> {
    let listed: Option<Vec<String>> = fields.optional("capabilities", "an array of strings")?;
    let tags = listed.unwrap_or_default();
    if tags.len() > TAGS_MAX || tags.iter().any(|tag| tag.len() > TAG_BYTES_MAX) {
        let message = format!(
            "capabilities: expected at most {TAGS_MAX} tags of at most {TAG_BYTES_MAX} bytes, got {}",
            tags.len()
        );
        return Err(WireRefusal::new(Code::FieldRange, message));
    }
    let tags = tags.into_iter().collect();
    match tags::conflict(&tags) {
        Some(kind) => {
            let message = format!("capabilities: expected at most one {kind}: tag, got several");
            Err(WireRefusal::new(Code::FieldValue, message))
        }
        None => Ok(tags),
    }
}

fn read_status(fields: &Fields<'_>, name: &str) -> Result<Status, WireRefusal> {
    let text = text(fields, name, ID_BYTES_MAX)?;
    let mut all = Status::ALL.into_iter();
    all.find(|status| status.as_str() == text).ok_or_else(|| {
        let found = text.len();
        let message = format!(
            "{name}: expected SUCCEEDED, FAILED, TIMED_OUT or CANCELED, found another of {found} bytes"
        );
        WireRefusal::new(Code::FieldValue, message)
    })
}

fn exit_code(fields: &Fields<'_>) -> Result<Option<i32>, WireRefusal> {
    let number: Option<i64> = fields.optional("exit_code", "a whole number")?;
    let code = number.map(|number| {
        i32::try_from(number).map_err(|_| {
            let message = "exit_code: expected a 32-bit number, found a larger one";
            WireRefusal::new(Code::FieldRange, message)
        })
    });
    code.transpose()
}

/// Reads a time as its sender claims it.
fn instant(fields: &Fields<'_>, name: &str) -> Result<Option<String>, WireRefusal> {
    let text: Option<String> = fields.optional(name, "a string")?;
    text.map(|text| within_bytes(name, text, INSTANT_BYTES_MAX))
        .transpose()
}

fn artifacts(
    raw: Option<&RawValue>,
    warnings: &mut Vec<String>,
) -> Result<Vec<Artifact>, WireRefusal> {
    let Some(raw) = raw else {
        return Ok(Vec::new());
    };
    let items: Result<Vec<&RawValue>, _> = serde_json::from_str(raw.get());
    let all = items.map_err(|_| wrong("artifacts", "an array", &found(raw.get())))?;
    if all.len() > ARTIFACTS_MAX {
        warnings.push(format!(
            "artifacts: the first {ARTIFACTS_MAX} of {} were kept",
            all.len()
        ));
    }
    let mut were_cut = false;
    let kept = all
        .into_iter()
        .take(ARTIFACTS_MAX)
        .enumerate()
        .map(|(at, raw)| {
            let name = format!("artifacts[{at}]");
            let fields =
                Fields::of(raw.get()).map_err(|found| wrong(&name, "an object", &found))?;
            let text = |key: &str| -> Result<String, WireRefusal> {
                let text = fields.optional(key, "a string");
                Ok(text
                    .map_err(|wrong| wrong.within(&name))?
                    .unwrap_or_default())
            };
            let mut artifact = Artifact {
                r#type: text("type")?,
                uri: text("uri")?,
            };
            were_cut |= cut(&mut artifact.r#type, KIND_BYTES_MAX);
            were_cut |= cut(&mut artifact.uri, URI_BYTES_MAX);
            Ok(artifact)
        })
        .collect::<Result<_, WireRefusal>>()?;
    if were_cut {
        warnings.push(format!(
            "artifacts: texts were truncated to {URI_BYTES_MAX} bytes"
        ));
    }
    Ok(kept)
}
