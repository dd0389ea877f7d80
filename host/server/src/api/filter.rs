//! Which jobs a request is about: the parameters that lists, counts and changes of many jobs share.

use host_core::failure::FailureKind;
use host_core::job;
use host_core::name::{Name, NameError, RUNNER_SEPARATOR};
use host_core::query::{Cursor, JobFilter, Order};
use host_core::time::Time;
use serde::Deserialize;
use utoipa::IntoParams;

use super::error::ApiError;
use super::problem::kinds;

/// How many characters an id has.
const ID_CHARS: usize = 36;

/// Which jobs. A job must match every parameter that is given.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct FilterQuery {
    /// Only jobs in this state.
    #[param(value_type = Option<String>)]
    pub(super) state: Option<job::State>,
    /// Only jobs in this queue.
    #[param(value_type = Option<String>)]
    queue: Option<Name>,
    /// Only jobs for this handler; `python#send_email` is one of a foreign runner.
    handler: Option<String>,
    /// Only jobs that were enqueued at this instant or later (RFC 3339).
    since: Option<String>,
    /// Only jobs that were enqueued before this instant (RFC 3339).
    until: Option<String>,
    /// Only jobs whose id starts with it.
    id: Option<String>,
    /// Only jobs whose latest attempt did not complete for this reason, such as `timed_out`. Any other
    /// word is a handler's own name of an error, `user_kind` of a failure.
    failure: Option<String>,
    /// Only jobs that came by this wire; `http` is this API.
    wire: Option<String>,
    /// Only jobs with this unique key.
    unique_key: Option<String>,
    /// Only jobs with this attribute, as `KEY=VALUE`.
    attribute: Option<String>,
    /// `newest` or `oldest` first; `newest` if absent.
    #[serde(default)]
    #[param(value_type = Option<String>)]
    sort: Order,
    /// At most this many, 1 to 1,000; 100 if absent.
    pub(super) limit: Option<u32>,
    /// The `next_cursor` of the answer before.
    cursor: Option<u64>,
}

impl FilterQuery {
    /// Returns where the answer before ended.
    pub(super) fn after(&self) -> Option<Cursor> {
        self.cursor.map(Cursor)
    }

    /// Checks the parameters.
    pub(super) fn filter(&self) -> Result<JobFilter, ApiError> {
        let reason = self.failure.as_deref();
        let failure = reason.and_then(FailureKind::from_name);
        let user_kind = reason.filter(|_| failure.is_none());
        Ok(JobFilter {
            state: self.state,
            queue: self.queue.clone(),
            handler: self.handler.as_deref().map(handler).transpose()?,
            since: instant("since", self.since.as_deref())?,
            until: instant("until", self.until.as_deref())?,
            id: self.id.as_deref().map(start_of_id).transpose()?,
            failure,
            user_kind: user_kind.map(str::to_owned),
            wire: self.wire.clone(),
            unique_key: self.unique_key.clone(),
            attribute: self.attribute.as_deref().map(attribute).transpose()?,
            order: self.sort,
        })
    }
}

fn wrong(detail: impl Into<String>) -> ApiError {
    ApiError::new(&kinds::INVALID_QUERY, detail)
}

/// Reads a handler's name with that of its runner, if it has one.
fn handler(text: &str) -> Result<(Option<Name>, Name), ApiError> {
    let name = |text: &str| {
        let wrong = |error: NameError| wrong(format!("handler: {error}"));
        text.parse().map_err(wrong)
    };
    match text.split_once(RUNNER_SEPARATOR) {
        None => Ok((None, name(text)?)),
        Some((runner, handler)) => Ok((Some(name(runner)?), name(handler)?)),
    }
}

fn instant(key: &str, text: Option<&str>) -> Result<Option<Time>, ApiError> {
    let parse = |text| {
        Time::parse_rfc3339(text).ok_or_else(|| {
            wrong(format!(
                "{key}: expected an RFC 3339 time, such as 2026-05-17T18:30:00Z"
            ))
        })
    };
    text.map(parse).transpose()
}

fn start_of_id(text: &str) -> Result<String, ApiError> {
    let text = text.to_ascii_lowercase();
    let is_start = |c: char| c.is_ascii_hexdigit() || c == '-';
    if text.is_empty() || text.len() > ID_CHARS || !text.chars().all(is_start) {
        return Err(wrong(
            "id: expected the start of an id: hexadecimal digits and dashes",
        ));
    }
    Ok(text)
}

fn attribute(text: &str) -> Result<(String, String), ApiError> {
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| wrong("attribute: expected KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}
