//! Makes the job that a request asks for, within the limits of each field.

use host_api::new_job::{NewJobBody, OnConflictBody, ScopeBody, UniqueBody};
use host_api::time;
use host_core::id::JobId;
use host_core::job::{
    Membership, NewJob, OnConflict, PRIORITY_LAST, Payload, UniqueKey, UniqueScope,
};
use host_core::json::{JsonText, Pairs};
use host_core::name::Name;
use host_core::policy::{Policy, RETENTION_MS_MIN, RetentionChoice};
use host_core::seconds::{SECONDS_MAX, Seconds};
use host_core::time::Time;
use host_runtime::clock::Clock;

use super::prerequisites;
use super::route::Route;
use crate::api::error::ApiError;

/// The default priority.
const PRIORITY_DEFAULT: u8 = 5;

/// The longest unique key, in bytes.
const UNIQUE_KEY_BYTES_MAX: usize = 256;

/// The most attributes, and the most bytes of all their keys and values together.
const ATTRIBUTES_MAX: usize = 64;
const ATTRIBUTES_BYTES_MAX: usize = 16 << 10;

/// The most entries of a trace context, and the most bytes of the key and value of one.
const TRACE_ENTRIES_MAX: usize = 16;
const TRACE_ENTRY_BYTES_MAX: usize = 512;

/// Returns the queue it waits in.
pub(super) fn queue(body: &NewJobBody) -> Result<Name, ApiError> {
    match body.queue.as_deref() {
        None => Ok(Name::default_queue()),
        Some(queue) => queue
            .parse()
            .map_err(|error| ApiError::invalid(format!("queue: {error}"))),
    }
}

/// Checks the other fields and makes the job.
pub(super) fn into_job(
    mut body: NewJobBody,
    id: JobId,
    route: Route,
    batch: Option<Membership>,
    siblings: &[JobId],
    clock: Clock,
) -> Result<NewJob, ApiError> {
    let mut params = body.params.take().map_or_else(JsonText::null, |text| {
        JsonText(Box::<str>::from(text).into_string())
    });
    if !body.inputs.is_empty() {
        params = prerequisites::params_with_room(params)?;
    }
    let priority = body.priority.map(priority).transpose()?;
    let mut policy = policy_of(&body, route.policy, route.timeout_ms_max)?;
    policy.retention = retention(&body)?.or(route.retention).over(policy.retention);
    let run_at = start(&body, clock)?;
    let max_delay = body.unique.as_ref().and_then(|it| it.max_delay_seconds);
    let (depends_on, mut conditions) = prerequisites::read(&body, siblings)?;
    let files = prerequisites::files(&body, siblings, &depends_on)?;
    if !files.is_empty() {
        if route.runner.is_some() {
            let detail = "files: a runner cannot read them; only handlers of components can";
            return Err(ApiError::invalid(detail));
        }
        conditions.get_or_insert_default();
    }
    Ok(NewJob {
        id,
        handler: route.handler,
        executor: route.runner,
        component: route.component,
        queue: route.queue,
        priority: priority.unwrap_or(PRIORITY_DEFAULT),
        run_at,
        deadline: end(&body, clock)?,
        policy,
        depends_on,
        conditions,
        batch,
        notify: Vec::new(),
        files,
        unique_key: unique_key(body.unique_key, body.unique, run_at.is_some())?,
        payload: Payload {
            params,
            wire: "http".to_owned(),
            external_id: None,
            trace_context: trace_context(body.trace_context)?,
            attributes: attributes(body.attributes)?,
            origin: None,
            latest_start: max_delay.map(|delay| clock.now().plus_ms(delay.ms)),
        },
    })
}

fn start(body: &NewJobBody, clock: Clock) -> Result<Option<Time>, ApiError> {
    match (body.delay_seconds, body.run_at.as_deref()) {
        (Some(_), Some(_)) => Err(ApiError::invalid(
            "run_at and delay_seconds are mutually exclusive",
        )),
        (Some(delay), None) => Ok(Some(clock.now().plus_ms(delay.ms))),
        (None, text) => instant("run_at", text, clock),
    }
}

fn end(body: &NewJobBody, clock: Clock) -> Result<Option<Time>, ApiError> {
    let now = clock.now();
    let deadline = instant("deadline", body.deadline.as_deref(), clock)?;
    match deadline {
        Some(at) if at <= now => Err(ApiError::invalid(format!(
            "deadline: {} has passed; it is now {}",
            at.to_rfc3339(),
            now.to_rfc3339()
        ))),
        deadline => Ok(deadline),
    }
}

/// Makes the policy of the job: that of its executor, with the changes of the entry.
fn policy_of(
    body: &NewJobBody,
    mut policy: Policy,
    timeout_ms_max: Option<u64>,
) -> Result<Policy, ApiError> {
    if let Some(attempts) = body.max_attempts {
        let read = u32::try_from(attempts).ok().filter(|read| *read > 0);
        policy.max_attempts = read.ok_or_else(|| {
            ApiError::invalid(format!(
                "max_attempts: must be at least 1 and at most limits.attempts, got {attempts}"
            ))
        })?;
    }
    if let Some(timeout) = body.timeout_seconds {
        let most = timeout_ms_max.map_or(SECONDS_MAX, |ms| f64::from(Seconds { ms }));
        let timeout_seconds = f64::from(timeout);
        if timeout.ms == 0 || timeout_seconds > most {
            return Err(ApiError::invalid(format!(
                "timeout_seconds: must be 0.001–{most}, got {timeout_seconds}"
            )));
        }
        policy.timeout_ms = Some(timeout.ms);
    }
    Ok(policy)
}

fn retention(body: &NewJobBody) -> Result<RetentionChoice, ApiError> {
    let at_least = |field: &str, given: Option<Seconds>| match given {
        Some(kept) if kept.ms < RETENTION_MS_MIN => Err(ApiError::invalid(format!(
            "{field}: must be {}–{SECONDS_MAX}, got {}",
            RETENTION_MS_MIN / 1_000,
            f64::from(kept)
        ))),
        given => Ok(given.map(|kept| kept.ms)),
    };
    Ok(RetentionChoice {
        ms: at_least("retention_seconds", body.retention_seconds)?,
        discarded_ms: at_least(
            "retention_discarded_seconds",
            body.retention_discarded_seconds,
        )?,
    })
}

/// Checks the priority of a job.
pub(in crate::api) fn priority(given: i64) -> Result<u8, ApiError> {
    let read = u8::try_from(given).ok();
    read.filter(|read| *read <= PRIORITY_LAST).ok_or_else(|| {
        ApiError::invalid(format!("priority: must be 0–{PRIORITY_LAST}, got {given}"))
    })
}

fn instant(field: &str, text: Option<&str>, clock: Clock) -> Result<Option<Time>, ApiError> {
    let Some(text) = text else {
        return Ok(None);
    };
    let at = time::instant(field, text).map_err(ApiError::invalid)?;
    Ok(Some(clock.when_wall(at)))
}

fn unique_key(
    key: Option<String>,
    unique: Option<UniqueBody>,
    is_delayed: bool,
) -> Result<Option<UniqueKey>, ApiError> {
    let (field, unique) = match (key, unique) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => {
            return Err(ApiError::invalid(
                "unique_key and unique are mutually exclusive",
            ));
        }
        (Some(key), None) => ("unique_key", UniqueBody::active(key)),
        (None, Some(unique)) => ("unique.key", unique),
    };
    let on_conflict = on_conflict(&unique, is_delayed)?;
    let UniqueBody { key, scope, .. } = unique;
    if key.is_empty() || key.len() > UNIQUE_KEY_BYTES_MAX {
        return Err(ApiError::invalid(format!(
            "{field}: must have 1–{UNIQUE_KEY_BYTES_MAX} bytes, got {}",
            key.len()
        )));
    }
    Ok(Some(UniqueKey {
        key,
        on_conflict,
        scope: match scope {
            ScopeBody::Active => UniqueScope::Active,
            ScopeBody::Retained => UniqueScope::Retained,
            ScopeBody::Seconds(seconds) => {
                let unread = |error| ApiError::invalid(format!("unique.scope: {error}"));
                let ms = Seconds::try_from(seconds).map_err(unread)?.ms;
                UniqueScope::Within { ms }
            }
        },
    }))
}

fn on_conflict(unique: &UniqueBody, is_delayed: bool) -> Result<OnConflict, ApiError> {
    let choice = unique.on_conflict.unwrap_or(OnConflictBody::Keep);
    if choice != OnConflictBody::PushBack && unique.max_delay_seconds.is_some() {
        return Err(ApiError::invalid(
            "unique.max_delay_seconds: needs on_conflict push_back",
        ));
    }
    Ok(match choice {
        OnConflictBody::Keep => OnConflict::Keep,
        OnConflictBody::Replace => OnConflict::Replace,
        OnConflictBody::PushBack if !is_delayed => {
            return Err(ApiError::invalid(
                "unique.on_conflict: push_back needs delay_seconds or run_at",
            ));
        }
        OnConflictBody::PushBack => OnConflict::PushBack,
    })
}

fn attributes(pairs: Option<Pairs>) -> Result<Vec<(String, String)>, ApiError> {
    let pairs = pairs.unwrap_or_default().0;
    let bytes: usize = pairs
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum();
    if pairs.len() > ATTRIBUTES_MAX || bytes > ATTRIBUTES_BYTES_MAX {
        return Err(ApiError::invalid(format!(
            "attributes: must be at most {ATTRIBUTES_MAX} with {ATTRIBUTES_BYTES_MAX} bytes in \
             total, got {} with {bytes}",
            pairs.len()
        )));
    }
    Ok(pairs)
}

fn trace_context(pairs: Option<Pairs>) -> Result<Vec<(String, String)>, ApiError> {
    let pairs = pairs.unwrap_or_default().0;
    let longest = pairs
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .max();
    if pairs.len() > TRACE_ENTRIES_MAX || longest > Some(TRACE_ENTRY_BYTES_MAX) {
        return Err(ApiError::invalid(format!(
            "trace_context: must have at most {TRACE_ENTRIES_MAX} entries of at most \
             {TRACE_ENTRY_BYTES_MAX} bytes"
        )));
    }
    Ok(pairs)
}
