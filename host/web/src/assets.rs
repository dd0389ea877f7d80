//! The files that pages refer to. They are in the binary.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};

/// By name: the media type and the text.
const FILES: &[(&str, &str, &str)] = &[
    (
        "host.css",
        "text/css; charset=utf-8",
        include_str!("../assets/host.css"),
    ),
    (
        "continue.js",
        "text/javascript; charset=utf-8",
        include_str!("../assets/continue.js"),
    ),
    (
        "copy.js",
        "text/javascript; charset=utf-8",
        include_str!("../assets/copy.js"),
    ),
    (
        "look.js",
        "text/javascript; charset=utf-8",
        include_str!("../assets/look.js"),
    ),
    (
        "palette.js",
        "text/javascript; charset=utf-8",
        include_str!("../assets/palette.js"),
    ),
    (
        "chart.js",
        "text/javascript; charset=utf-8",
        include_str!("../assets/chart.js"),
    ),
    (
        "select.js",
        "text/javascript; charset=utf-8",
        include_str!("../assets/select.js"),
    ),
    (
        "live.js",
        "text/javascript; charset=utf-8",
        include_str!("../assets/live.js"),
    ),
    (
        "host.svg",
        "image/svg+xml",
        include_str!("../assets/host.svg"),
    ),
];

pub(crate) async fn serve(Path(name): Path<String>) -> Response {
    let Some((_, kind, text)) = FILES.iter().find(|(known, ..)| *known == name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let headers = [
        (CONTENT_TYPE, *kind),
        // The next version of the host may have another one.
        (CACHE_CONTROL, "no-cache"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, *text).into_response()
}
