//! Liveness, readiness and metrics.

use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE, VARY};
use axum::response::{IntoResponse, Response};
use host_api::health::Health;
use host_api::path;
use host_core::access::{Object, Scope};
use host_core::name::EXECUTOR_SEPARATOR;
use host_dispatch::SubmitError;
use host_engine::component::tables::read_deployed;
use host_http::door::Door;
use host_http::gate::Caller;

use super::Shared;
use super::error::ApiError;
use super::problem::kinds;
use super::scoped::scope;
use crate::metrics::prometheus;

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
        let detail = "the host is draining: it starts no more jobs";
        return Err(ApiError::new(&kinds::DRAINING, detail));
    }
    if dispatch.shared().store_full.load(Ordering::Relaxed) {
        return Err(SubmitError::StoreFull.into());
    }
    if dispatch.shared().store_moved.load(Ordering::Relaxed) {
        return Err(SubmitError::StoreMoved.into());
    }
    if dispatch.shared().is_store_away() {
        return Err(SubmitError::StoreAway.into());
    }
    dispatch.read(read_deployed).await?;
    Ok(Json(health(&shared)))
}

/// Shows the host's numbers in the text format of Prometheus, or in that of `OpenMetrics` if `Accept` prefers it.
#[utoipa::path(
    get, path = path::METRICS, tag = "host",
    responses((status = 200, content(
        (String = "text/plain"),
        (String = "application/openmetrics-text"),
    )))
)]
pub(super) async fn metrics(
    State(shared): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let mut text = shared.api.scrape().text().await?;
    if !scope(&caller).is_all() {
        text = seen(scope(&caller), &text);
    }
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let kind = if prometheus::prefers_openmetrics(accept.unwrap_or_default()) {
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    } else {
        text = prometheus::text(&text);
        "text/plain; version=0.0.4; charset=utf-8"
    };
    let headers = [(CONTENT_TYPE, kind), (VARY, "accept")];
    Ok((headers, text).into_response())
}

/// Labels of what is closed to tokens with a scope.
const OF_ALL: [&str; 4] = ["limit", "node", "runner", "worker"];

/// Leaves out the numbers of queues and handlers that a scope has not, and of what is closed to it.
fn seen(scope: &Scope, text: &str) -> String {
    let label = |line: &str, name: &str| {
        let (_, rest) = line.split_once(&format!("{name}=\""))?;
        Some(rest.split('"').next().unwrap_or_default().to_owned())
    };
    let is_seen = |line: &&str| {
        let (queue, handler) = (label(line, "queue"), label(line, "handler"));
        // Numbers with one of the two count jobs with any of the other.
        let is_whole = queue.is_some() && handler.is_some();
        let queue = queue.is_none_or(|name| {
            (is_whole || scope.handlers.is_empty()) && scope.has(Object::Queue(&name))
        });
        let handler = handler.is_none_or(|address| {
            let object = match address.split_once(EXECUTOR_SEPARATOR) {
                Some((runner, name)) => Object::Handler(Some(runner), name),
                None => Object::Handler(None, &address),
            };
            (is_whole || scope.queues.is_empty()) && scope.has(object)
        });
        let is_of_others = OF_ALL.iter().any(|name| label(line, name).is_some());
        line.starts_with('#') || (queue && handler && !is_of_others)
    };
    let lines: Vec<&str> = text.lines().filter(is_seen).collect();
    lines.join("\n") + "\n"
}

fn health(shared: &Shared) -> Health {
    Health {
        status: "ok".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_seconds: shared.api.clock.uptime().as_secs(),
        isolation: shared.api.isolation.as_str().to_owned(),
        certificate_days_left: shared.api.metrics.certificate_days_left(),
        // On a host with tokens that is for those who may read its log.
        weak: if shared.api.auth.requires_tokens() {
            Vec::new()
        } else {
            shared.api.protection.missing.clone()
        },
    }
}

#[cfg(test)]
mod tests {
    use host_core::access::Glob;

    use super::*;

    /// Labels as in `docs/metrics.md`; each line is named by its number.
    const TEXT: &str = "\
# HELP jobs Jobs.
jobs{queue=\"mail-eu\"} 1
jobs{queue=\"web\"} 2
runs{handler=\"noop\"} 3
runs{handler=\"python#noop\"} 4
runs{handler=\"noop\",queue=\"mail-eu\"} 5
runs{handler=\"a/b\",queue=\"mail-eu\"} 6
runs{handler=\"noop\",queue=\"web\"} 7
held{limit=\"noop\"} 8
lives{node=\"one\"} 9
slots{runner=\"python\"} 10
slots{queue=\"mail-eu\",worker=\"w\"} 11
commits 12
# EOF
";

    #[test]
    fn numbers_of_a_scope_say_nothing_about_others() {
        let glob = |text: &&str| Glob::try_from((*text).to_owned()).unwrap();
        let globs = |texts: &[&str]| texts.iter().map(glob).collect();
        for (queues, handlers, expected) in [
            (&["mail-*"][..], &[][..], &[1, 5, 6, 12][..]),
            (&[], &["noop"], &[3, 5, 7, 12]),
            (&[], &["python#*"], &[4, 12]),
            (&["mail-*"], &["noop"], &[5, 12]),
        ] {
            let scope = Scope {
                queues: globs(queues),
                handlers: globs(handlers),
            };
            let text = seen(&scope, TEXT);
            let (comments, lines): (Vec<_>, Vec<_>) =
                text.lines().partition(|line| line.starts_with('#'));
            let numbers: Vec<u32> = lines
                .iter()
                .map(|line| line.rsplit(' ').next().unwrap())
                .map(|it| it.parse().unwrap())
                .collect();
            assert_eq!((comments.len(), &*numbers), (2, expected), "{scope:?}");
        }
    }
}
