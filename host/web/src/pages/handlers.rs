//! The handlers: what they may use, what they cost by revision, and a form to run one.

use askama::Template;
use axum::extract::{Path, Query};
use axum::http::StatusCode;
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
use crate::format::{GRANTS_SHOWN, NAMES_SHOWN, PageBudget, SHOWN_BYTES_MAX, cut, shorten};
use crate::page::{Frame, show_part, with_status};
use crate::same::Command;

/// The most that is shown of what a handler or a field says of itself in a list, in bytes.
const ABOUT_BYTES_MAX: usize = 300;

/// How much of the page of a handler has what others wrote, and the longest params in its form, in bytes. A form with
/// fields has them twice.
const ROOM_BYTES: usize = 64 << 10;
const PARAMS_BYTES_MAX: usize = 16 << 10;

#[derive(Template)]
#[template(path = "handlers.html")]
struct List<'a> {
    frame: Frame,
    handlers: &'a [HandlerView],
}

pub(crate) async fn list(ask: Ask, Query(live): Query<Live>) -> Result<Response, Problem> {
    let mut handlers: PageView<HandlerView> = ask.get(path::HANDLERS, &ALL).await?;
    for about in handlers
        .items
        .iter_mut()
        .filter_map(|it| it.description.as_mut())
    {
        shorten(about, ABOUT_BYTES_MAX);
    }
    let frame = ask
        .frame("Handlers", "/handlers")
        .same_as("handler ls", path::HANDLERS)
        .live(&live.address("/handlers"), live.is_on(), "");
    Ok(show_part(&handlers.items, live.from, |handlers, next| {
        List {
            frame: frame.followed_by("/handlers", next),
            handlers,
        }
    }))
}

#[derive(Template)]
#[template(path = "handler.html")]
struct Detail {
    frame: Frame,
    handler: HandlerView,
    grants: Vec<String>,
    schema: String,
    /// The initial values of the form.
    params: String,
    /// Set if a job's params are too long for the form.
    are_long: bool,
    queue: String,
    /// One field for each of the params, if their schema is that simple.
    fields: Vec<Field>,
    /// Why what was typed was refused, and whether it was JSON.
    wrong: Option<String>,
    is_json: bool,
}

impl Detail {
    /// Returns why a field was refused: the part of the error that begins with it.
    fn wrong_at(&self, field: &Field) -> Option<&str> {
        let is_of_field = |part: &&str| {
            let words = part
                .trim_start_matches("params")
                .trim_start_matches(['/', ':', ' ']);
            let rest = words.strip_prefix(field.name.as_str());
            rest.is_some_and(|rest| rest.starts_with(':'))
                || words.starts_with(&format!("{:?} is a required", field.name))
        };
        self.wrong.as_deref()?.split("; ").find(is_of_field)
    }
}

/// The initial values of the form.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Again {
    /// A job whose params are run again.
    job: Option<String>,
}

/// What the form begins with.
#[derive(Default)]
pub(crate) struct FormStart {
    pub(crate) params: String,
    pub(crate) queue: String,
    /// Set if a job's params are too long for the form.
    pub(crate) are_long: bool,
    /// What was typed into its fields, and why that was refused.
    pub(crate) typed: Vec<(String, String)>,
    pub(crate) wrong: Option<String>,
}

pub(crate) async fn show(
    ask: Ask,
    Path(name): Path<String>,
    Query(again): Query<Again>,
) -> Result<Response, Problem> {
    let mut start = FormStart {
        params: "{}".to_owned(),
        ..FormStart::default()
    };
    if let Some(job) = again.job {
        let job: JobView = ask.get(&path::with_name(path::JOB, &job), &ALL).await?;
        let text = job.params.as_deref().map_or("null", RawValue::get);
        (start.params, start.queue) = (pretty::json(text), job.queue);
        // Params that are cut would be other ones.
        start.are_long = cut(&start.params, PARAMS_BYTES_MAX).1;
        if start.are_long {
            start.params.clear();
        }
    }
    page(&ask, &name, start).await
}

/// Shows a handler, with a form that begins as it is told to.
pub(crate) async fn page(ask: &Ask, name: &str, start: FormStart) -> Result<Response, Problem> {
    let mut handler: HandlerView = ask.get(&path::with_name(path::HANDLER, name), &ALL).await?;
    let mut room = PageBudget(ROOM_BYTES);
    let FormStart {
        mut params,
        queue,
        are_long,
        typed,
        wrong,
    } = start;
    room.take(&mut params, PARAMS_BYTES_MAX);
    let mut grants = handler.grants.lines();
    room.take_grants(&mut grants);
    let schema = handler.params_schema.as_deref().map(RawValue::get);
    let mut fields = schema.and_then(fields::parse).unwrap_or_default();
    let is_typed = fields::refill(&mut fields, &typed);
    if !is_typed && wrong.is_none() && !begin(&mut fields, &params) {
        fields.clear();
    }
    for field in &mut fields {
        room.take(&mut field.value, PARAMS_BYTES_MAX);
        room.take(&mut field.about, ABOUT_BYTES_MAX);
    }
    let mut schema = schema.map(pretty::json).unwrap_or_default();
    room.take(&mut schema, SHOWN_BYTES_MAX);
    if let Some(about) = &mut handler.description {
        room.take(about, SHOWN_BYTES_MAX);
    }
    let frame = ask.frame(handler.name.clone(), "/handlers").same_as(
        Command::new("handler show").name(&handler.name),
        path::with_name(path::HANDLER, &handler.name),
    );
    let status = match wrong {
        Some(_) => StatusCode::BAD_REQUEST,
        None => StatusCode::OK,
    };
    let page = Detail {
        frame,
        handler,
        grants,
        schema,
        params,
        are_long,
        queue,
        fields,
        is_json: wrong.is_some() && !is_typed,
        wrong: wrong.map(|wrong| cut(&wrong, ABOUT_BYTES_MAX).0.to_owned()),
    };
    Ok(with_status(status, &page))
}
