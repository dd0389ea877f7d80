//! Jobs that other sources offer: each becomes a job of ours with the id that its source gave it.

use std::sync::Arc;

use bytes::Bytes;
use host_core::job::NewJob;
use host_core::port::accept::{Accept, Offer, Refusal};
use host_core::port::lease::Respond;
use host_engine::job::EnqueueOnce;
use host_http::problem::Kind;
use host_runtime::tasks::Tasks;

use super::Shared;
use crate::api::error::ApiError;
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

fn refusal(error: &ApiError) -> Refusal {
    let detail = error.detail().to_owned();
    match error.kind().status {
        429 | 500.. => Refusal::Later(detail),
        _ => Refusal::Never(detail),
    }
}
