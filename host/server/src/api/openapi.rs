//! The OpenAPI document: what `routes.rs` answers, described. A test compares the two.

use std::sync::LazyLock;

use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{ContentBuilder, Ref, ResponseBuilder};
use utoipa::{Modify, OpenApi};

use super::problem::ProblemView;
use super::{components, enqueue, events, handlers, health, hero, jobs, logs, queues, runners};

/// The description of all routes.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "host",
        description = "Enqueues jobs, watches and steers them, and deploys the components that execute them."
    ),
    paths(
        enqueue::enqueue,
        jobs::list,
        jobs::show,
        jobs::cancel,
        jobs::retry,
        jobs::wait,
        jobs::attempts,
        logs::logs,
        queues::list,
        queues::show,
        queues::pause,
        queues::resume,
        hero::submit::submit,
        hero::list::list,
        hero::list::show,
        hero::list::wait,
        hero::logs::logs,
        hero::steer::stop,
        hero::steer::requeue,
        hero::list::worker,
        hero::steer::requeue_stale,
        handlers::list,
        handlers::show,
        components::list,
        components::show,
        components::deploy,
        components::remove,
        components::rollback,
        runners::list,
        runners::show,
        runners::restart,
        events::events,
        document,
        health::alive,
        health::ready,
        health::metrics,
    ),
    components(schemas(ProblemView<'static>, events::ProgressEventView<'static>, events::GapView)),
    modifiers(&Refusals)
)]
pub(super) struct Document;

/// Says of each operation that it may be refused with a problem document.
struct Refusals;

impl Modify for Refusals {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let refusal = ResponseBuilder::new()
            .description("Refused")
            .content(
                "application/problem+json",
                ContentBuilder::new()
                    .schema(Some(Ref::from_schema_name("Problem")))
                    .build(),
            )
            .build();
        for path in document.paths.paths.values_mut() {
            let methods: [&mut Option<Operation>; 4] = [
                &mut path.get,
                &mut path.put,
                &mut path.post,
                &mut path.delete,
            ];
            for operation in methods.into_iter().flatten() {
                let responses = &mut operation.responses.responses;
                responses.insert("default".to_owned(), refusal.clone().into());
            }
        }
    }
}

static DOCUMENT: LazyLock<Bytes> = LazyLock::new(|| {
    let text = Document::openapi().to_json();
    Bytes::from(text.unwrap_or_default())
});

/// Shows this document.
#[utoipa::path(
    get, path = "/api/v1/openapi.json", tag = "host",
    responses((status = 200, description = "OpenAPI"))
)]
pub(super) async fn document() -> Response {
    let json = HeaderValue::from_static("application/json");
    ([(CONTENT_TYPE, json)], DOCUMENT.clone()).into_response()
}
