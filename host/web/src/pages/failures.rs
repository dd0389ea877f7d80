//! Why jobs were discarded: failures with the same cause together.

use askama::Template;
use axum::extract::Query;
use axum::response::Response;
use host_api::cause::{CauseView, CausesView};
use host_api::path;

use super::{ALL, Live};
use crate::ask::{Ask, Problem};
use crate::format::shorten;
use crate::page::{Frame, show_part};

/// The longest pattern that is shown, in bytes.
const PATTERN_BYTES_MAX: usize = 500;

#[derive(Template)]
#[template(path = "failures.html")]
struct Page<'a> {
    frame: Frame,
    causes: &'a [CauseView],
    examined: u64,
    complete: bool,
}

pub(crate) async fn list(ask: Ask, Query(live): Query<Live>) -> Result<Response, Problem> {
    let mut found: CausesView = ask.get(path::FAILURES, &ALL).await?;
    for cause in &mut found.items {
        shorten(&mut cause.pattern, PATTERN_BYTES_MAX);
    }
    let frame = ask
        .frame("Failures", "/failures")
        .same_as("job ls --state discarded", path::FAILURES)
        .live(&live.address("/failures"), live.is_on(), "");
    Ok(show_part(&found.items, live.from, |causes, next| Page {
        frame: frame.followed_by("/failures", next),
        causes,
        examined: found.examined,
        complete: found.complete,
    }))
}
