//! The queues: how many jobs each has, pausing and resuming.

use askama::Template;
use axum::extract::{Path, Query};
use axum::response::Response;
use host_api::path;
use host_api::queue::QueueView;
use host_core::job::STATES;
use serde_json::{Value, json};

use super::job::unknown_action;
use super::{ALL, Clicked, Live};
use crate::ask::{Ask, Problem};
use crate::form::Form;
use crate::page::{Frame, show_part};

#[derive(Template)]
#[template(path = "queues.html")]
struct Page<'a> {
    frame: Frame,
    queues: &'a [QueueView],
}

pub(crate) async fn list(ask: Ask, Query(live): Query<Live>) -> Result<Response, Problem> {
    let queues = ask.queues().await?;
    let frame = ask
        .frame("Queues", "/queues")
        .same_as("queue ls", path::QUEUES)
        .live(&live.address("/queues"), live.is_on(), "");
    Ok(show_part(&queues, live.from, |queues, next| Page {
        frame: frame.followed_by("/queues", next),
        queues,
    }))
}

pub(crate) async fn act(
    ask: Ask,
    Path(name): Path<String>,
    Form(asked): Form<Clicked>,
) -> Result<Response, Problem> {
    let route = match asked.action.as_str() {
        "pause" => path::QUEUE_PAUSE,
        "resume" => path::QUEUE_RESUME,
        _ => return Err(unknown_action()),
    };
    let _: Value = ask
        .post(&path::with_name(route, &name), &ALL, &json!({}))
        .await?;
    Ok(crate::see("/queues"))
}
