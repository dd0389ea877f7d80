//! The handlers: what they may use, what they cost by revision, and a form to run one.

use askama::Template;
use axum::extract::{Path, Query};
use axum::response::Response;
use host_api::handler::HandlerView;
use host_api::job::JobView;
use host_api::page::PageView;
use host_api::{path, pretty};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{ALL, Live};
use crate::ask::{Ask, Problem};
use crate::fields::{self, FIELD, Field, Kind, begin};
use crate::page::{Frame, show as show_page};
use crate::same::Command;

#[derive(Template)]
#[template(path = "handlers.html")]
struct List {
    frame: Frame,
    handlers: Vec<HandlerView>,
}

pub(crate) async fn list(ask: Ask, Query(live): Query<Live>) -> Result<Response, Problem> {
    let handlers: PageView<HandlerView> = ask.get(path::HANDLERS, &ALL).await?;
    let frame = ask
        .frame("Handlers", "/handlers")
        .same_as("handler ls", path::HANDLERS);
    Ok(show_page(&List {
        frame: frame.live("/handlers", live.is_on(), ""),
        handlers: handlers.items,
    }))
}

#[derive(Template)]
#[template(path = "handler.html")]
struct Detail {
    frame: Frame,
    handler: HandlerView,
    schema: String,
    /// What the form begins with.
    params: String,
    queue: String,
    /// One field for each of the params, if their schema is that simple.
    fields: Vec<Field>,
}

/// What the form begins with.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Again {
    /// A job whose params are run again.
    job: Option<String>,
}

pub(crate) async fn show(
    ask: Ask,
    Path(name): Path<String>,
    Query(again): Query<Again>,
) -> Result<Response, Problem> {
    let handler: HandlerView = ask.get(&path::of(path::HANDLER, &name), &ALL).await?;
    let (mut params, mut queue) = ("{}".to_owned(), String::new());
    if let Some(job) = again.job {
        let job: JobView = ask.get(&path::of(path::JOB, &job), &ALL).await?;
        let text = job.params.as_deref().map_or("null", RawValue::get);
        (params, queue) = (pretty::json(text), job.queue);
    }
    let schema = handler.params_schema.as_deref().map(RawValue::get);
    let fields = schema.and_then(fields::of);
    let fields = fields.and_then(|mut fields| begin(&mut fields, &params).then_some(fields));
    let frame = ask.frame(handler.name.clone(), "/handlers").same_as(
        Command::of("handler show").name(&handler.name),
        path::of(path::HANDLER, &handler.name),
    );
    Ok(show_page(&Detail {
        frame,
        schema: schema.map(pretty::json).unwrap_or_default(),
        params,
        queue,
        fields: fields.unwrap_or_default(),
        handler,
    }))
}
