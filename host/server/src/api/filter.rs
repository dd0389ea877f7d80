//! Which jobs a request is about: checks the parameters that lists, counts and changes of many jobs share.

use host_api::filter::FilterQuery;
use host_api::filter_text::Filter;
use host_api::time;
use host_core::access::{Glob, Verb};
use host_core::failure::FailureKind;
use host_core::id::{BatchId, start_of_id};
use host_core::name::{EXECUTOR_SEPARATOR, Name, NameError};
use host_core::query::{Cursor, JobFilter};
use host_core::time::Time;
use host_http::gate::Caller;
use host_http::query::cursor;

use super::Shared;
use super::error::ApiError;
use super::problem::kinds;
use super::scoped::{needs, scope};

/// Returns where the answer before ended.
pub(super) fn after(query: &FilterQuery) -> Result<Option<Cursor>, ApiError> {
    Ok(cursor(query.cursor.as_deref())?.map(Cursor))
}

/// Reads the filter of a request.
pub(super) fn read(shared: &Shared, query: &FilterQuery) -> Result<Filter, ApiError> {
    query.read(shared.api.clock.now()).map_err(wrong)
}

/// Checks a filter.
pub(super) fn checked(query: &Filter, caller: &Caller) -> Result<JobFilter, ApiError> {
    let reason = query.failure.as_deref();
    let failure = reason.and_then(FailureKind::from_name);
    let user_kind = reason.filter(|_| failure.is_none());
    let asks_payloads = !query.params.is_empty() || !query.words.is_empty();
    if user_kind.is_some() || asks_payloads || query.fingerprint.is_some() {
        // Whether jobs match would give away their params and details of their failures.
        needs(caller, Verb::ReadPayload)?;
    }
    let (globs, names) = match query.handler.as_deref() {
        Some(text) if text.contains('*') => (Some(text), None),
        name => (None, name),
    };
    let glob = globs
        .map(|text| Glob::try_from(text.to_owned()))
        .transpose();
    Ok(JobFilter {
        state: query.state,
        queue: query.queue.as_deref().map(queue).transpose()?,
        handler: names.map(handler).transpose()?,
        handlers: glob.map_err(|error| wrong(format!("handler: {error}")))?,
        since: instant("since", query.since.as_deref())?,
        until: instant("until", query.until.as_deref())?,
        id: query.id.as_deref().map(id).transpose()?,
        failure,
        user_kind: user_kind.map(str::to_owned),
        wire: query.wire.clone(),
        unique_key: query.unique_key.clone(),
        attributes: query.attributes.clone(),
        params: query.params.clone(),
        words: query.words.iter().map(|word| word.to_lowercase()).collect(),
        fingerprint: query.fingerprint.clone(),
        batch: query.batch.as_deref().map(batch).transpose()?,
        order: query.sort.unwrap_or_default(),
        scope: scope(caller).clone(),
    })
}

fn wrong(detail: impl Into<String>) -> ApiError {
    ApiError::new(&kinds::INVALID_QUERY, detail)
}

fn batch(text: &str) -> Result<BatchId, ApiError> {
    text.parse()
        .map_err(|_| wrong("batch: expected the id of a batch"))
}

fn queue(text: &str) -> Result<Name, ApiError> {
    text.parse()
        .map_err(|error| wrong(format!("queue: {error}")))
}

/// Reads a handler's name with that of its runner, if it has one.
fn handler(text: &str) -> Result<(Option<Name>, Name), ApiError> {
    let name = |text: &str| {
        let wrong = |error: NameError| wrong(format!("handler: {error}"));
        text.parse().map_err(wrong)
    };
    match text.split_once(EXECUTOR_SEPARATOR) {
        None => Ok((None, name(text)?)),
        Some((runner, handler)) => Ok((Some(name(runner)?), name(handler)?)),
    }
}

fn instant(key: &str, text: Option<&str>) -> Result<Option<Time>, ApiError> {
    let read = text.map(|text| time::instant(key, text).map_err(wrong));
    read.transpose()
}

fn id(text: &str) -> Result<String, ApiError> {
    let expected = "id: expected the start of an id: hexadecimal digits and dashes";
    start_of_id(text).ok_or_else(|| wrong(expected))
}
