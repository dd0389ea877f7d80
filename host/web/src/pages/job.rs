//! One job: its attempts to scale, what it was called with, what came of it, its log, and what can be done.

use askama::Template;
use axum::extract::{Path, Query};
use axum::response::Response;
use host_api::attempt::AttemptView;
use host_api::filter::{FilterQuery, PageQuery};
use host_api::handler::HandlerView;
use host_api::job::JobView;
use host_api::log::LineView;
use host_api::new_job::{AcceptedView, NewJobBody};
use host_api::page::PageView;
use host_api::{path, pretty};
use host_core::job::State;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{ALL, Clicked};
use crate::ask::{Ask, Problem};
use crate::fields;
use crate::form::Form;
use crate::format::{SHOWN_BYTES_MAX, cut};
use crate::page::{Confirm, Frame, show as show_page};
use crate::same::Command;
use crate::timeline::{Bar, draw};

/// How many attempts and lines of a log are shown.
const ATTEMPTS_SHOWN: u32 = 100;
const LINES_SHOWN: usize = 200;

/// How many thousands of lines a search reads before somebody says whether to go on.
const PAGES_SEARCHED: usize = 10;

/// How many attempts may be chosen of a log.
const ATTEMPTS_OFFERED: usize = 20;

/// How many jobs are shown that a job waits for, and that wait for it.
const NODES_SHOWN: usize = 10;

/// The longest message of a line that is shown, in bytes.
const MESSAGE_BYTES_MAX: usize = 4 << 10;

/// The longest message of an attempt in the list of them, in bytes.
const ATTEMPT_MESSAGE_BYTES_MAX: usize = 300;

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
    graph: Graph,
    lines: Vec<LineView>,
    /// Which lines.
    look: Look,
    attempt_numbers: Vec<u32>,
    /// How many lines were searched.
    searched: usize,
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
    /// Only lines of this attempt; empty for all.
    attempt: String,
    /// Only lines with this text.
    find: String,
}

impl Look {
    fn has(&self, line: &LineView) -> bool {
        let fields = line.fields.iter().flat_map(|(name, value)| [name, value]);
        let mut texts = fields.chain([&line.message]);
        (self.attempt.is_empty() || self.attempt == line.attempt.to_string())
            && (self.find.is_empty() || texts.any(|text| text.contains(&self.find)))
    }
}

/// The jobs that a job waits for, and those that wait for it.
#[derive(Default)]
struct Graph {
    before: Vec<Node>,
    before_more: usize,
    after: Vec<Node>,
    after_more: usize,
}

/// One of them.
struct Node {
    id: String,
    handler: String,
    state: String,
}

impl Graph {
    async fn of(ask: &Ask, job: &JobView) -> Self {
        let (before, before_more) = nodes(ask, job.depends_on.as_deref()).await;
        let (after, after_more) = nodes(ask, job.dependents.as_deref()).await;
        Self {
            before,
            before_more,
            after,
            after_more,
        }
    }

    fn is_empty(&self) -> bool {
        self.before.is_empty() && self.after.is_empty()
    }
}

/// Returns the first of these jobs, and how many more there are.
async fn nodes(ask: &Ask, ids: Option<&[String]>) -> (Vec<Node>, usize) {
    let ids = ids.unwrap_or_default();
    let mut nodes = Vec::new();
    for id in ids.iter().take(NODES_SHOWN) {
        let query = FilterQuery {
            id: Some(id.clone()),
            ..FilterQuery::default()
        };
        let found: Result<PageView<JobView>, Problem> = ask.get(path::JOBS, &query).await;
        let found = found.ok().and_then(|page| page.items.into_iter().next());
        let (handler, state) = found.map(|job| (job.handler, job.state)).unzip();
        nodes.push(Node {
            id: id.clone(),
            handler: handler.unwrap_or_else(|| id.clone()),
            state: state.unwrap_or_else(|| "purged".to_owned()),
        });
    }
    (nodes, ids.len().saturating_sub(NODES_SHOWN))
}

/// Lines of a log.
struct Lines {
    shown: Vec<LineView>,
    searched: usize,
    next: Option<String>,
}

/// Reads the lines of a log that are looked for: of a bounded number of lines.
async fn lines(ask: &Ask, job: &JobView, look: &Look) -> Result<Lines, Problem> {
    let mut found = Lines {
        shown: Vec::new(),
        searched: 0,
        next: look.after.clone(),
    };
    let is_search = !look.attempt.is_empty() || !look.find.is_empty();
    let (limit, pages) = if is_search {
        (1_000, PAGES_SEARCHED)
    } else {
        (LINES_SHOWN, 1)
    };
    let route = path::of(path::JOB_LOGS, &job.id);
    for _ in 0..pages {
        let query = PageQuery {
            limit: u32::try_from(limit).ok(),
            cursor: found.next.take(),
        };
        let page: PageView<LineView> = ask.get(&route, &query).await?;
        let is_full = page.items.len() >= limit;
        for line in page.items {
            if found.shown.len() == LINES_SHOWN {
                break;
            }
            found.searched += 1;
            found.next = Some(line.seq.to_string());
            found.shown.extend(Some(line).filter(|line| look.has(line)));
        }
        if found.shown.len() == LINES_SHOWN {
            break;
        }
        if !is_full {
            found.next = None;
            break;
        }
    }
    for line in &mut found.shown {
        let shown = cut(&line.message, MESSAGE_BYTES_MAX).0.len();
        line.message.truncate(shown);
    }
    Ok(found)
}

pub(crate) async fn show(
    ask: Ask,
    Path(id): Path<String>,
    Query(look): Query<Look>,
) -> Result<Response, Problem> {
    let job: JobView = ask.get(&path::of(path::JOB, &id), &ALL).await?;
    let limit = ATTEMPTS_SHOWN.to_string();
    let attempts = path::of(path::JOB_ATTEMPTS, &job.id);
    let mut attempts: PageView<AttemptView> = ask.get(&attempts, &[("limit", &limit)]).await?;
    for attempt in &mut attempts.items {
        if let Some(failure) = &mut attempt.failure {
            let shown = cut(&failure.message, ATTEMPT_MESSAGE_BYTES_MAX).0.len();
            failure.message.truncate(shown);
        }
    }
    // The rest of the page can be shown all the same.
    let (lines, lines_wrong) = match lines(&ask, &job, &look).await {
        Ok(lines) => (Some(lines), None),
        Err(problem) => (None, Some(problem.detail)),
    };
    let here = format!("/jobs/{}", job.id);
    let searched = lines.as_ref().map_or(0, |lines| lines.searched);
    let (lines, next) = lines.map(|it| (it.shown, it.next)).unwrap_or_default();
    let next = next.map(|after| {
        let query = [
            ("attempt", &look.attempt),
            ("find", &look.find),
            ("after", &after),
        ];
        serde_urlencoded::to_string(query).unwrap_or_default()
    });
    let state = State::from_name(&job.state);
    let is_terminal = state.is_some_and(State::is_terminal);
    let frame = ask
        .frame(format!("{} {}", job.handler, job.id), "/jobs")
        .same_as(
            Command::of("job show").name(&job.id),
            path::of(path::JOB, &job.id),
        );
    Ok(show_page(&Page {
        frame: if is_terminal {
            frame
        } else {
            frame.live(&here, look.live.is_some(), &format!("job={}", job.id))
        },
        graph: Graph::of(&ask, &job).await,
        attempt_numbers: (1..=job.attempt).rev().take(ATTEMPTS_OFFERED).collect(),
        searched,
        look,
        bars: draw(ask.now, &job, &attempts.items),
        attempts_next: attempts.next_cursor,
        attempts: attempts.items,
        params: Document::of(job.params.as_deref()),
        result: Document::of(job.result.as_deref()),
        lines,
        lines_wrong,
        lines_next: next.map(|next| format!("{here}?{next}#log")),
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

/// Enqueues a job and shows it. The form has the params as they are, or field by field.
pub(crate) async fn enqueue(
    ask: Ask,
    Form(typed): Form<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let refused = |detail: String| {
        Problem::refused("Not enqueued", detail, "Go back and correct the params.")
    };
    let value = |name: &str| {
        let found = typed.iter().find(|(typed, _)| typed == name);
        found.map(|(_, value)| value.trim())
    };
    let handler = value("handler").ok_or_else(|| refused("handler: missing".to_owned()))?;
    let params = match value("params") {
        Some("") => "null".to_owned(),
        Some(params) => params.to_owned(),
        None => {
            let handler: HandlerView = ask.get(&path::of(path::HANDLER, handler), &ALL).await?;
            let schema = handler.params_schema.as_deref().map(RawValue::get);
            let fields = schema.and_then(fields::of).unwrap_or_default();
            fields::params(&fields, &typed).map_err(refused)?
        }
    };
    // As it was typed: no digit of a number is lost.
    let params = RawValue::from_string(params).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        refused(format!(
            "params: not valid JSON at line {line}, column {column}"
        ))
    })?;
    let job = NewJobBody {
        handler: handler.to_owned(),
        params: Some(params),
        queue: value("queue")
            .filter(|it| !it.is_empty())
            .map(str::to_owned),
        ..NewJobBody::default()
    };
    let accepted: AcceptedView = ask.post(path::JOBS, &ALL, &job).await?;
    Ok(crate::see(&format!("/jobs/{}", accepted.id)))
}
