//! How many jobs came and went at this node.

use axum::Json;
use axum::extract::State;
use host_api::path;
use host_api::trend::{Span, TrendQuery, TrendView};
use host_http::extract::InQuery;

use super::Shared;

/// Shows how many jobs came and went at this node, and how long they waited and ran, step by step.
#[utoipa::path(
    get, path = path::TRENDS, tag = "jobs", operation_id = "show_trends", params(TrendQuery),
    responses((status = 200, body = TrendView))
)]
pub(super) async fn show(
    State(shared): State<Shared>,
    InQuery(query): InQuery<TrendQuery>,
) -> Json<TrendView> {
    let (trends, now) = (shared.api.numbers.trends(), shared.api.clock.now());
    let (step_seconds, points) = match query.span.unwrap_or_default() {
        Span::Hour => (60, trends.hour(now)),
        Span::Day => (900, trends.day(now)),
        Span::Week => (7_200, trends.week(now)),
    };
    Json(TrendView {
        step_seconds,
        points: points.into_iter().map(Into::into).collect(),
    })
}
