//! Why jobs were discarded: failures with the same cause together.

use askama::Template;
use axum::extract::Query;
use axum::response::Response;
use host_api::cause::{CauseView, CausesView};
use host_api::path;

use super::{ALL, Live};
use crate::ask::{Ask, Problem};
use crate::page::{Frame, show};

#[derive(Template)]
#[template(path = "failures.html")]
struct Page {
    frame: Frame,
    causes: Vec<CauseView>,
    examined: u64,
    complete: bool,
}

pub(crate) async fn list(ask: Ask, Query(live): Query<Live>) -> Result<Response, Problem> {
    let found: CausesView = ask.get(path::FAILURES, &ALL).await?;
    let frame = ask
        .frame("Failures", "/failures")
        .same_as("job ls --state discarded", path::FAILURES);
    Ok(show(&Page {
        frame: frame.live("/failures", live.is_on(), ""),
        causes: found.items,
        examined: found.examined,
        complete: found.complete,
    }))
}
