//! Reads the body of a callback. Its errors are shown only to a worker with a valid token. Pure.

use host_core::outcome::Progress;
use host_http::json::{JsonError, read_object};

use crate::convert::{self, ReportedEnd};
use crate::messages::{RunLogs, TaskCompleted, TaskHeartbeat, TaskStarted};
use crate::refusals::WireRefusal;
use crate::task_id::TaskId;
use crate::token::Scope;

/// The largest body, in bytes: an output of 16 MiB with its other fields.
pub(super) const BODY_BYTES_MAX: usize = (16 << 20) + (256 << 10);

/// A callback.
#[derive(Debug)]
pub(super) struct Callback {
    /// The task of the path.
    pub(super) task: Option<TaskId>,
    /// What its token is about, if that is valid.
    pub(super) scope: Option<Scope>,
    /// Its body, or why that is refused. Only a worker with a valid token learns which.
    pub(super) message: Result<Message, WireRefusal>,
}

/// The body of a callback.
#[derive(Debug)]
pub(super) struct Message {
    /// At least 1.
    pub(super) attempt: u32,
    pub(super) attempt_id: Option<String>,
    pub(super) claims: Claims,
    pub(super) report: Result<Report, WireRefusal>,
}

/// What a worker says of itself, by name. It decides nothing.
pub(super) type Claims = Vec<(&'static str, String)>;

/// What a worker reports.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Report {
    Started,
    Heartbeat(Option<Progress>),
    Completed(Box<ReportedEnd>),
}

pub(super) fn started(body: &[u8]) -> Result<Message, WireRefusal> {
    let message: TaskStarted = object(body)?;
    Ok(Message {
        attempt: attempt(message.attempt)?,
        attempt_id: message.attempt_id,
        claims: claims([
            ("worker_id", message.worker_id),
            ("started_at", message.started_at),
        ]),
        report: Ok(Report::Started),
    })
}

pub(super) fn heartbeat(body: &[u8]) -> Result<Message, WireRefusal> {
    let message: TaskHeartbeat = object(body)?;
    Ok(Message {
        attempt: attempt(message.attempt)?,
        report: Ok(Report::Heartbeat(convert::progress(&message))),
        attempt_id: message.attempt_id,
        claims: Vec::new(),
    })
}

pub(super) fn completed(body: &[u8]) -> Result<Message, WireRefusal> {
    let message: TaskCompleted = object(body)?;
    let ended = convert::ended(&message);
    Ok(Message {
        attempt: attempt(message.attempt)?,
        attempt_id: message.attempt_id,
        claims: Vec::new(),
        report: ended.map(|ended| Report::Completed(Box::new(ended))),
    })
}

pub(super) fn log(body: &[u8]) -> Result<RunLogs, WireRefusal> {
    let log: RunLogs = object(body)?;
    attempt(log.attempt.into())?;
    Ok(log)
}

fn claims<const N: usize>(all: [(&'static str, Option<String>); N]) -> Claims {
    let stated = all
        .into_iter()
        .filter_map(|(name, claim)| Some((name, claim?)));
    let short =
        stated.map(|(name, claim)| (name, claim.chars().take(convert::NAME_CHARS_MAX).collect()));
    short.collect()
}

fn object<'a, T: serde::Deserialize<'a>>(body: &'a [u8]) -> Result<T, WireRefusal> {
    host_http::json::check(body)
        .and_then(|()| read_object(body))
        .map_err(|error| match error {
            JsonError::Syntax(words) => {
                let words = format!("body: {words}");
                WireRefusal::body(&words)
            }
            JsonError::Data(words) if words.starts_with("expected ") => WireRefusal::body(&words),
            JsonError::Data(words) if words.starts_with("attempt:") => WireRefusal::attempt(),
            JsonError::Data(words) => WireRefusal::field(&words),
        })
}

fn attempt(number: i64) -> Result<u32, WireRefusal> {
    let number = u32::try_from(number).ok().filter(|number| *number >= 1);
    number.ok_or_else(WireRefusal::attempt)
}
