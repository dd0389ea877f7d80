//! The batch of a job, as a request writes it: one that there is, or one that the job makes.

use host_api::new_job::{BatchPlanBody, JobBatchBody, NewJobBody};
use host_core::id::{BatchId, JobId};
use host_core::job::{BatchPlan, Membership, NewJob, On, Origin};
use host_core::notify::BATCH_EVENTS;
use host_core::policy::{RETENTION_MS_MIN, Retention};
use host_engine::batch::{self, BatchCounts, NAME_CHARS_MAX};

use crate::api::Api;
use crate::api::error::ApiError;
use crate::api::one_line;
use crate::webhooks::Sender;

/// How much of an id is shown, in characters.
const SHOWN_MAX: usize = 64;

/// Returns the entry of the same array whose batch a job joins.
pub(super) fn reference(body: &NewJobBody) -> Result<Option<usize>, ApiError> {
    let Some(JobBatchBody::Id(text)) = &body.batch else {
        return Ok(None);
    };
    let number = text.strip_prefix('#').map(str::parse);
    number.transpose().map_err(|_| {
        ApiError::invalid(format!(
            "batch: {text} is not a valid reference; write # and a number"
        ))
    })
}

/// Returns the batch that a job names.
pub(super) fn named(text: &str, siblings: &[JobId]) -> Result<Membership, ApiError> {
    let place: Option<usize> = text.strip_prefix('#').and_then(|n| n.parse().ok());
    if let Some(JobId(id)) = place.and_then(|n| siblings.get(n)) {
        return Ok(Membership::Joins(BatchId(*id)));
    }
    let shown: String = text.chars().take(SHOWN_MAX).collect();
    let id = text.parse().map(Membership::Joins);
    id.map_err(|_| ApiError::invalid(format!("batch: {shown:?} is not the id of a batch")))
}

/// Returns the bodies of a batch's callbacks, with params like those that they will have.
pub(in crate::api) fn callback_bodies(
    id: BatchId,
    plan: &BatchPlanBody,
) -> Result<Vec<(On, NewJobBody)>, ApiError> {
    plan.check_callbacks().map_err(ApiError::invalid)?;
    let bodies = plan.callbacks().map(|(on, callback)| {
        let given = batch::params(id, on, BatchCounts::default(), &[]);
        let params = Some(host_api::raw(given));
        let body = NewJobBody {
            params,
            ..callback.clone()
        };
        (on, body)
    });
    Ok(bodies.collect())
}

/// Returns what a batch is made with.
pub(in crate::api) fn plan(
    api: &Api,
    body: BatchPlanBody,
    callbacks: Vec<(On, NewJob)>,
    origin: Option<Box<Origin>>,
) -> Result<BatchPlan, ApiError> {
    if let Some(name) = &body.name {
        one_line::check("name", name, NAME_CHARS_MAX).map_err(ApiError::invalid)?;
    }
    let retention = body.retention_seconds;
    let kept_ms = retention.map_or(Retention::default().ms, |kept| kept.ms);
    if kept_ms < RETENTION_MS_MIN {
        return Err(ApiError::invalid("retention_seconds: must be at least 1"));
    }
    let check = |notify| api.webhooks.check(notify, &BATCH_EVENTS, Sender::Batch);
    Ok(BatchPlan {
        name: body.name.map(String::into_boxed_str),
        callbacks,
        notify: body
            .notify
            .map(check)
            .transpose()
            .map_err(ApiError::invalid)?,
        origin,
        created_at: api.clock.now(),
        kept_ms,
    })
}
