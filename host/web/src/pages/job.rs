//! One job: its attempts to scale, what it was called with, what came of it, its log, and what can be done.

use askama::Template;
use axum::extract::{Path, Query};
use axum::response::Response;
use host_api::attempt::AttemptView;
use host_api::job::JobView;
use host_api::log::LineView;
use host_api::new_job::AcceptedView;
use host_api::page::PageView;
use host_api::{path, pretty};
use host_core::job::State;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{ALL, Clicked};
use crate::ask::{Ask, Problem};
use crate::form::Form;
use crate::format::{SHOWN_BYTES_MAX, cut};
use crate::page::{Confirm, Frame, show as show_page};
use crate::timeline::{Bar, draw};

/// How many attempts and lines of a log are shown.
const ATTEMPTS_SHOWN: u32 = 100;
const LINES_SHOWN: u32 = 200;

/// The longest message of a line that is shown, in bytes.
const MESSAGE_BYTES_MAX: usize = 4 << 10;

#[derive(Template)]
#[template(path = "job.html")]
struct Page {
    frame: Frame,
    job: JobView,
    attempts: Vec<AttemptView>,
    /// Set if there are more.
    attempts_next: Option<String>,
    bars: Vec<Bar>,
    params: Document,
    result: Document,
    lines: Vec<LineView>,
    /// Why the log cannot be shown.
    lines_wrong: Option<String>,
    /// The address of the next lines.
    lines_next: Option<String>,
    can_cancel: bool,
    can_retry: bool,
    can_purge: bool,
}

/// JSON as it is shown.
#[derive(Default)]
struct Document {
    text: String,
    is_cut: bool,
}

impl Document {
    fn of(json: Option<&RawValue>) -> Self {
        let text = pretty::json(json.map(RawValue::get).unwrap_or_default());
        let (shown, is_cut) = cut(&text, SHOWN_BYTES_MAX);
        Self {
            text: shown.to_owned(),
            is_cut,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Look {
    live: Option<String>,
    /// Lines of the log behind this one.
    after: Option<String>,
}

pub(crate) async fn show(
    ask: Ask,
    Path(id): Path<String>,
    Query(look): Query<Look>,
) -> Result<Response, Problem> {
    let job: JobView = ask.get(&path::of(path::JOB, &id), &ALL).await?;
    let limit = ATTEMPTS_SHOWN.to_string();
    let attempts = path::of(path::JOB_ATTEMPTS, &job.id);
    let attempts: PageView<AttemptView> = ask.get(&attempts, &[("limit", &limit)]).await?;
    let limit = LINES_SHOWN.to_string();
    let mut query = vec![("limit", limit.as_str())];
    query.extend(look.after.as_deref().map(|after| ("cursor", after)));
    let lines: Result<PageView<LineView>, Problem> =
        ask.get(&path::of(path::JOB_LOGS, &job.id), &query).await;
    let (mut lines, lines_wrong) = match lines {
        Ok(lines) => (lines, None),
        // The rest of the page can be shown all the same.
        Err(problem) => (PageView::all(Vec::new()), Some(problem.detail)),
    };
    for line in &mut lines.items {
        let shown = cut(&line.message, MESSAGE_BYTES_MAX).0.len();
        line.message.truncate(shown);
    }
    let here = format!("/jobs/{}", job.id);
    let is_full = lines.items.len() >= LINES_SHOWN as usize;
    let next = lines.next_cursor.filter(|_| is_full);
    let state = State::from_name(&job.state);
    let is_terminal = state.is_some_and(State::is_terminal);
    let frame = ask
        .frame(format!("{} {}", job.handler, job.id), "/jobs")
        .same_as(
            format!("host job show {}", job.id),
            path::of(path::JOB, &job.id),
        );
    Ok(show_page(&Page {
        frame: frame.live(&here, look.live.is_some()),
        bars: draw(ask.now, &job, &attempts.items),
        attempts_next: attempts.next_cursor,
        attempts: attempts.items,
        params: Document::of(job.params.as_deref()),
        result: Document::of(job.result.as_deref()),
        lines: lines.items,
        lines_wrong,
        lines_next: next.map(|next| format!("{here}?after={next}#log")),
        can_cancel: !is_terminal && job.cancel_requested_at.is_none(),
        can_retry: matches!(state, Some(State::Discarded | State::Cancelled)),
        can_purge: is_terminal,
        job,
    }))
}

/// Does what a button of the page says.
pub(crate) async fn act(
    ask: Ask,
    Path(id): Path<String>,
    Form(asked): Form<Clicked>,
) -> Result<Response, Problem> {
    let here = format!("/jobs/{}", path::segment(&id));
    let (route, body) = match asked.action.as_str() {
        "cancel" => (
            path::JOB_CANCEL,
            json!({"reason": "cancelled on the dashboard"}),
        ),
        "retry" => (path::JOB_RETRY, json!({})),
        "priority" => {
            let priority: Option<i64> = asked.value.parse().ok();
            (path::JOB_PRIORITY, json!({"priority": priority}))
        }
        "purge" if !asked.sure => {
            return Ok(show_page(&Confirm {
                frame: ask.frame("Purge this job?", "/jobs"),
                question: format!("Purge job {id}, with its result, attempts and log?"),
                samples: Vec::new(),
                to: here.clone(),
                fields: vec![("action", "purge".to_owned())],
                typed: None,
                button: "Purge it".to_owned(),
                back: here,
            }));
        }
        "purge" => (path::JOB_PURGE, json!({})),
        _ => return Err(unknown_action()),
    };
    let _changed: Value = ask.post(&path::of(route, &id), &ALL, &body).await?;
    Ok(crate::see(if asked.action == "purge" {
        "/jobs"
    } else {
        &here
    }))
}

pub(crate) fn unknown_action() -> Problem {
    let detail = "the form names an action that this page does not have";
    Problem::refused("Nothing was done", detail, "Load the page again.")
}

/// The form that enqueues a job.
#[derive(Deserialize)]
pub(crate) struct NewJob {
    handler: String,
    #[serde(default)]
    params: String,
    #[serde(default)]
    queue: String,
}

/// Enqueues a job and shows it.
pub(crate) async fn enqueue(ask: Ask, Form(new): Form<NewJob>) -> Result<Response, Problem> {
    let params = if new.params.trim().is_empty() {
        "null"
    } else {
        new.params.trim()
    };
    // As it was typed: no digit of a number is lost.
    let params: Box<RawValue> = serde_json::from_str(params).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let detail = format!("params: not valid JSON at line {line}, column {column}");
        Problem::refused("Not enqueued", detail, "Go back and correct the params.")
    })?;
    let job = host_api::new_job::NewJobBody {
        handler: new.handler,
        params: Some(params),
        queue: Some(new.queue).filter(|queue| !queue.is_empty()),
        ..Default::default()
    };
    let accepted: AcceptedView = ask.post(path::JOBS, &ALL, &job).await?;
    Ok(crate::see(&format!("/jobs/{}", accepted.id)))
}
