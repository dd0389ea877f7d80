//! Jobs that other sources offer: each becomes a job of ours with the id that its source gave it.

use std::sync::Arc;

use bytes::Bytes;
use host_core::id::JobId;
use host_core::job::NewJob;
use host_core::port::accept::{Accept, Offer, Refusal};
use host_core::port::lease::Respond;
use host_engine::job::{Cancel, EnqueueOnce};
use host_http::problem::Kind;
use host_runtime::tasks::Tasks;

use super::Shared;
use crate::api::error::ApiError;
use crate::api::problem::kinds;
use crate::outbox::Source;

/// The source keeps the job with the detail; no client sees the code.
static NOT_ALLOWED: Kind = Kind {
    code: "not_allowed",
    status: 403,
    title: "Not allowed",
    meaning: "The configuration does not allow this source to enqueue the job.",
    next: "Allow its handler and its queue in the section of the source.",
    retry_after_seconds: None,
};

/// Accepts jobs on behalf of one source.
pub(in crate::api) struct Offers {
    pub(in crate::api) shared: Shared,
    pub(in crate::api) source: Arc<Source>,
    pub(in crate::api) tasks: Tasks,
}

impl Accept for Offers {
    fn accept(&self, offer: Offer, answer: Box<dyn Respond<Result<(), Refusal>>>) {
        let (shared, source) = (Arc::clone(&self.shared), Arc::clone(&self.source));
        self.tasks.spawn(async move {
            let accepted = accept(&shared, source, offer).await;
            // A source that no longer waits offers it again.
            let _ = answer.respond(accepted.map_err(|error| refusal(&error)));
        });
    }

    fn cancel(&self, job: JobId, answer: Box<dyn Respond<Result<(), Refusal>>>) {
        let (shared, source) = (Arc::clone(&self.shared), Arc::clone(&self.source));
        self.tasks.spawn(async move {
            let cancelled = cancel(&shared, &source, job).await;
            let _ = answer.respond(cancelled.map_err(|error| refusal(&error)));
        });
    }
}

async fn accept(shared: &Shared, source: Arc<Source>, offer: Offer) -> Result<(), ApiError> {
    let wire = source.wire;
    let may = move |body: &_| {
        let denied = source.denies(body);
        denied.map_or(Ok(()), |why| Err(ApiError::new(&NOT_ALLOWED, why)))
    };
    let text = Bytes::from(offer.job);
    let mut jobs = super::jobs_inside(shared, text, wire, &[], None, may).await?;
    // A source offers one document, which is no array.
    if let Some(job) = jobs.pop() {
        let job = Box::new(NewJob {
            id: offer.id,
            ..job
        });
        shared.api.dispatch.submit(EnqueueOnce(job)).await?;
    }
    Ok(())
}

async fn cancel(shared: &Shared, source: &Source, id: JobId) -> Result<(), ApiError> {
    let dispatch = &shared.api.dispatch;
    let Some(job) = dispatch.read(move |reader| reader.job(id)).await? else {
        let unknown = format!("no job has the id {id}");
        return Err(ApiError::new(&kinds::JOB_NOT_FOUND, unknown));
    };
    if !source.may_cancel(&job) {
        let other = format!("the job {id} came from elsewhere");
        return Err(ApiError::new(&NOT_ALLOWED, other));
    }
    if !job.lifecycle.state.is_terminal() {
        let cancel = Cancel {
            job: id,
            reason: Some("its application cancelled it".to_owned()),
            grace_ms: None,
        };
        dispatch.submit(cancel).await?;
    }
    Ok(())
}

fn refusal(error: &ApiError) -> Refusal {
    let detail = error.detail().to_owned();
    match error.kind().status {
        429 | 500.. => Refusal::Later(detail),
        _ => Refusal::Never(detail),
    }
}
