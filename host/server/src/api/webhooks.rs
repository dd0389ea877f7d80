//! Trying a webhook.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use host_api::new_job::AcceptedView;
use host_api::path;
use host_api::webhook::{NotifyBody, TestWebhookBody};
use host_core::access::Object;
use host_core::notify::Event;
use host_engine::job::Enqueue;
use host_engine::webhook::{DELIVER, WEBHOOKS, of_test};
use host_http::extract::small_body;
use host_http::gate::Caller;
use host_runtime::ids;

use super::Shared;
use super::actor::Actor;
use super::error::ApiError;
use super::problem::kinds;
use super::scoped::scope;
use crate::webhooks::Sender;

/// Enqueues a delivery of an empty event, to see whether a receiver answers. It is a job of the queue `webhooks`.
#[utoipa::path(
    post, path = path::WEBHOOK_TEST, tag = "webhooks", operation_id = "test_webhook",
    request_body = TestWebhookBody,
    responses((status = 201, body = AcceptedView))
)]
pub(super) async fn test(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    request: Request,
) -> Result<(StatusCode, Json<AcceptedView>), ApiError> {
    if !scope(&caller).has(Object::Job(WEBHOOKS, Some(WEBHOOKS), DELIVER)) {
        let detail = format!(
            "the token is not for the handler {WEBHOOKS}#{DELIVER} in the queue {WEBHOOKS}"
        );
        return Err(ApiError::new(&kinds::OUT_OF_SCOPE, detail));
    }
    let TestWebhookBody { url, secret } = small_body(&shared.api.bodies, request).await?;
    let body = NotifyBody {
        url,
        secret,
        events: Vec::new(),
    };
    let notify = shared
        .api
        .webhooks
        .check(body, &[Event::Test], Sender::Host)
        .map_err(ApiError::invalid)?;
    let now = shared.api.clock.now();
    let mut job = of_test(now, ids::job(now), &notify);
    job.policy.retention = shared.api.retentions.of_deliveries();
    let note = actor.note(format!("webhook {}", notify.url));
    let note = note.detail(format!("signed by {}", notify.secret));
    let jobs = shared.submit(Enqueue(vec![job]), note).await?;
    let accepted = jobs.into_iter().next().map(AcceptedView::from);
    let lost = || {
        ApiError::new(
            &kinds::INTERNAL,
            "the store did not say what became of the job",
        )
    };
    Ok((StatusCode::CREATED, Json(accepted.ok_or_else(lost)?)))
}
