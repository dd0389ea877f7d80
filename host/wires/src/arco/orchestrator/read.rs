//! Reads the body of a callback. Errors in its fields are shown only to a worker with a valid token. Pure.

use host_core::outcome::Progress;
use host_http::json::{JsonError, read_object};

use crate::arco::convert::{self, Ended};
use crate::arco::messages::{TaskCompleted, TaskHeartbeat, TaskStarted};
use crate::arco::refusals::Refused;
use crate::arco::task_id::TaskId;
use crate::arco::token::Scope;

/// The largest body, in bytes: an output of 16 MiB with its other fields.
pub(super) const BODY_BYTES_MAX: usize = (16 << 20) + (256 << 10);

/// A callback whose body was read.
#[derive(Debug)]
pub(super) struct Callback {
    /// The task of the path.
    pub(super) task: Option<TaskId>,
    /// What its token is about, if that is valid.
    pub(super) scope: Option<Scope>,
    pub(super) message: Message,
}

/// The body of a callback.
#[derive(Debug)]
pub(super) struct Message {
    /// At least 1.
    pub(super) attempt: u32,
    pub(super) attempt_id: Option<String>,
    pub(super) report: Result<Report, Refused>,
}

/// What a worker reports.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Report {
    Started,
    Heartbeat(Option<Progress>),
    Completed(Box<Ended>),
}

pub(super) fn started(body: &[u8]) -> Result<Message, Refused> {
    let message: TaskStarted = object(body)?;
    Ok(Message {
        attempt: attempt(message.attempt)?,
        attempt_id: message.attempt_id,
        report: Ok(Report::Started),
    })
}

pub(super) fn heartbeat(body: &[u8]) -> Result<Message, Refused> {
    let message: TaskHeartbeat = object(body)?;
    Ok(Message {
        attempt: attempt(message.attempt)?,
        report: convert::progress(&message).map(Report::Heartbeat),
        attempt_id: message.attempt_id,
    })
}

pub(super) fn completed(body: &[u8]) -> Result<Message, Refused> {
    let message: TaskCompleted = object(body)?;
    let ended = convert::ended(&message);
    Ok(Message {
        attempt: attempt(message.attempt)?,
        attempt_id: message.attempt_id,
        report: ended.map(|ended| Report::Completed(Box::new(ended))),
    })
}

fn object<'a, T: serde::Deserialize<'a>>(body: &'a [u8]) -> Result<T, Refused> {
    host_http::json::check(body)
        .and_then(|()| read_object(body))
        .map_err(|error| match error {
            JsonError::Syntax(words) => {
                let words = format!("body: {words}");
                Refused::body(&words)
            }
            JsonError::Data(words) if words.starts_with("invalid type") => Refused::body(&words),
            JsonError::Data(words) if words.starts_with("attempt:") => Refused::attempt(),
            JsonError::Data(words) => Refused::field(&words),
        })
}

fn attempt(number: i64) -> Result<u32, Refused> {
    let number = u32::try_from(number).ok().filter(|number| *number >= 1);
    number.ok_or_else(Refused::attempt)
}
