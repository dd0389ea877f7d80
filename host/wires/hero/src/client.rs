//! The document's operations other than running jobs, as commands and the meaning of their answers:
//! list, view, submit, stop and queue again. Pure; [`live`] sends them.

pub(super) mod api;
pub(super) mod commands;
mod gate;
pub(super) mod live;
pub(super) mod lost;
mod steer;
mod submit;
pub(super) mod watch;

#[cfg(test)]
mod tests;

use super::messages::{self, Command, Value};
use super::refusals::Refusal;

pub(super) use self::steer::{
    STALE_AFTER_MS, StopResult, is_stale, keep_reply, lengths, may_be_lost, requeue,
    requeue_by_itself, requeued, stop, stopped,
};
pub(super) use self::submit::{Submitted, check_circles, links, submit, submitted};
pub(super) use super::job::view::{
    FULL, Fields, JobView, READ_JOBS_MAX, STATUS, SUMMARY, parse, read,
};

/// Reads the next part of the key space, about `keys` keys. Start with cursor `0`. Redis skips keys
/// that hold no hash.
pub(super) fn scan(cursor: u64, keys: u32) -> Command {
    let (cursor, count) = (cursor.to_string(), keys.to_string());
    messages::plain(&[
        "SCAN",
        &cursor,
        "MATCH",
        "hero:job:*",
        "COUNT",
        &count,
        "TYPE",
        "hash",
    ])
}

/// Reads the result of [`scan`]: the next cursor, which is 0 at the end, and ids, which may be
/// repeated.
pub(super) fn scanned(value: &Value) -> Result<(u64, Vec<String>), Refusal> {
    let parts = match value {
        Value::List(parts) => parts.as_slice(),
        _ => &[],
    };
    let text = parts.first().and_then(Value::text);
    let cursor = text.and_then(|text| text.parse().ok());
    let (Some(cursor), Some(keys)) = (cursor, parts.get(1)) else {
        return Err(Refusal::odd_reply("SCAN"));
    };
    let prefix = messages::job_key("");
    let keys = keys.texts().into_iter();
    let ids = keys.filter_map(|key| key.strip_prefix(&prefix).map(str::to_owned));
    Ok((cursor, ids.collect()))
}
