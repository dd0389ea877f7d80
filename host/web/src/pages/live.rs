//! What a page that is live listens to: that something has changed, at most every few seconds.

use axum::extract::Query;
use axum::http::Method;
use axum::response::Response;
use host_api::path;
use serde::Deserialize;

use crate::ask::{Ask, Problem};

/// What of all that happens.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct What {
    job: Option<String>,
    queue: Option<String>,
}

pub(crate) async fn follow(ask: Ask, Query(what): Query<What>) -> Result<Response, Problem> {
    let mut query = vec![("hints", "true")];
    query.extend(what.job.as_deref().map(|job| ("job", job)));
    query.extend(what.queue.as_deref().map(|queue| ("queue", queue)));
    ask.respond(Method::GET, path::EVENTS, &query, None).await
}
