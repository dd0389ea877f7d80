//! Liveness, readiness and metrics.

use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use host_api::health::Health;
use host_api::path;
use host_dispatch::SubmitError;

use host_http::door::Door;

use super::Shared;
use super::error::ApiError;
use super::problem::kinds;

/// Who asks about health: clients and monitoring.
pub(super) const DOORS: &[Door] = &[Door::Api, Door::Metrics];

/// Tells that the host lives.
#[utoipa::path(get, path = path::HEALTH, tag = "host", responses((status = 200, body = Health)))]
pub(super) async fn alive(State(shared): State<Shared>) -> Json<Health> {
    Json(health(&shared))
}

/// Tells whether the host takes work: its store answers, has room and is where it was, and it has not been
/// asked to stop or to drain.
#[utoipa::path(get, path = path::READY, tag = "host", responses((status = 200, body = Health)))]
pub(super) async fn ready(State(shared): State<Shared>) -> Result<Json<Health>, ApiError> {
    if shared.api.draining.is_cancelled() {
        return Err(ApiError::new(&kinds::STOPPING, "the host is stopping"));
    }
    let dispatch = &shared.api.dispatch;
    if dispatch.shared().presence.is_drain_requested() {
        let detail = "the host is asked to start no more jobs";
        return Err(ApiError::new(&kinds::DRAINING, detail));
    }
    if dispatch.shared().store_full.load(Ordering::Relaxed) {
        return Err(SubmitError::StoreFull.into());
    }
    if dispatch.shared().store_moved.load(Ordering::Relaxed) {
        return Err(SubmitError::StoreMoved.into());
    }
    dispatch.read(|reader| reader.components()).await?;
    Ok(Json(health(&shared)))
}

/// Shows the host's numbers in the text format of Prometheus.
#[utoipa::path(
    get, path = path::METRICS, tag = "host",
    responses((status = 200, body = String, content_type = "application/openmetrics-text"))
)]
pub(super) async fn metrics(State(shared): State<Shared>) -> Result<Response, ApiError> {
    let text = shared.api.scrape().text().await?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(CONTENT_TYPE, kind)], text).into_response())
}

fn health(shared: &Shared) -> Health {
    Health {
        status: "ok".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_seconds: shared.api.clock.uptime().as_secs(),
        isolation: shared.api.isolation.as_str().to_owned(),
        weak: shared.api.protection.missing.clone(),
    }
}
