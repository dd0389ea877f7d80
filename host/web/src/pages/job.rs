//! One job: its attempts to scale, what it was called with, what came of it, its log, and what can be done.

mod log;

use askama::Template;
use axum::extract::{Path, Query};
use axum::http::StatusCode;
use axum::response::Response;
use host_api::attempt::{AttemptView, FailureView};
use host_api::filter::{FilterQuery, PageQuery};
use host_api::handler::HandlerView;
use host_api::job::JobView;
use host_api::log::LineView;
use host_api::new_job::{AcceptedView, NewJobBody};
use host_api::page::PageView;
use host_api::{path, pretty};
use host_core::job::State;
use host_core::prerequisite::When;
use host_core::time::Time;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use self::log::{LEVELS, Lines, LogQuery};
use super::handlers::{self, FormStart};
use super::{ALL, Clicked};
use crate::ask::{Ask, Problem};
use crate::fields;
use crate::form::Form;
use crate::format::{PageBudget, SHOWN_BYTES_MAX};
use crate::page::{Confirm, Frame, show as show_page, show_part};
use crate::same::Command;
use crate::timeline::{Timeline, draw};

/// How many attempts are shown.
const ATTEMPTS_SHOWN: u32 = 20;

/// How many attempts may be chosen of a log.
const ATTEMPTS_OFFERED: usize = 20;

/// How many jobs are shown that a job waits for, and that wait for it.
const NODES_SHOWN: usize = 10;

/// How much of the page has what others wrote besides the log, in bytes.
const ROOM_BYTES: usize = 40 << 10;

/// The most of one such text, of one in a list, and of a stack.
const TEXT_BYTES_MAX: usize = 8 << 10;
const LISTED_BYTES_MAX: usize = 300;
const STACK_BYTES_MAX: usize = 4 << 10;

#[derive(Template)]
#[template(path = "job.html")]
struct Page<'a> {
    frame: Frame,
    job: &'a JobView,
    attributes: &'a [(String, String)],
    /// Of the failure.
    details: &'a Document,
    attempts: &'a [Row],
    /// The addresses of the attempts before and behind these.
    attempts_before: Option<String>,
    attempts_behind: Option<String>,
    timeline: &'a Timeline,
    params: &'a Document,
    result: &'a Document,
    graph: &'a Graph,
    lines: Vec<&'a LineView>,
    /// Which lines.
    query: &'a LogQuery,
    attempt_numbers: Vec<u32>,
    /// How many lines were searched.
    searched: usize,
    /// Why the log cannot be shown.
    lines_wrong: Option<&'a str>,
    /// The addresses of the next lines and of the last ones.
    lines_next: Option<String>,
    lines_last: Option<String>,
    /// What was done to the job before it was shown.
    done: Option<&'static str>,
    can_cancel: bool,
    can_retry: bool,
    can_purge: bool,
}

impl Page<'_> {
    /// Returns whether an attempt runs: then the failure is that of an earlier one.
    fn is_running(&self) -> bool {
        self.job.state == State::Running.as_str()
    }
}

/// One attempt.
struct Row {
    attempt: AttemptView,
    /// How long the job had waited before it, if that is known.
    waited_ms: Option<u64>,
}

/// Returns the attempts with how long the job waited before each. `from` is when the first of them began to wait.
fn rows(from: Option<&str>, attempts: Vec<AttemptView>, room: &mut PageBudget) -> Vec<Row> {
    let at = |text: &str| Time::parse_rfc3339(text);
    let mut begun = from.and_then(at);
    let rows = attempts.into_iter().map(|mut attempt| {
        if let Some(failure) = &mut attempt.failure {
            fit(failure, room, LISTED_BYTES_MAX);
        }
        room.take(&mut attempt.executor, LISTED_BYTES_MAX);
        if let Some(name) = attempt.worker.as_mut().and_then(|it| it.name.as_mut()) {
            room.take(name, LISTED_BYTES_MAX);
        }
        let started = at(&attempt.started_at);
        let waited_ms = started
            .zip(begun)
            .map(|(started, begun)| started.since_ms(begun));
        begun = attempt.finished_at.as_deref().and_then(at);
        Row { attempt, waited_ms }
    });
    rows.collect()
}

/// Cuts what a failure says to what the page has room for.
fn fit(failure: &mut FailureView, room: &mut PageBudget, message_bytes_max: usize) {
    room.take(&mut failure.message, message_bytes_max);
    for text in [&mut failure.user_kind, &mut failure.code]
        .into_iter()
        .flatten()
    {
        room.take(text, LISTED_BYTES_MAX);
    }
    if let Some(stack) = &mut failure.stack {
        room.take(stack, STACK_BYTES_MAX);
    }
}

/// The same for all that others wrote of a job. Returns its attributes.
fn fit_job(job: &mut JobView, room: &mut PageBudget) -> Vec<(String, String)> {
    if let Some(failure) = &mut job.failure {
        fit(failure, room, TEXT_BYTES_MAX);
    }
    if let Some(progress) = &mut job.progress {
        room.take(&mut progress.message, TEXT_BYTES_MAX);
    }
    let texts = [
        &mut job.waits_because,
        &mut job.cancel_reason,
        &mut job.unique_key,
        &mut job.external_id,
    ];
    for text in texts.into_iter().flatten() {
        room.take(text, TEXT_BYTES_MAX);
    }
    for notify in job.notify.iter_mut().flatten() {
        room.take(&mut notify.url, LISTED_BYTES_MAX);
    }
    let attributes = job.attributes.take().unwrap_or_default().into_iter();
    attributes
        .map(|(mut name, mut value)| {
            room.take(&mut name, LISTED_BYTES_MAX);
            room.take(&mut value, LISTED_BYTES_MAX);
            (name, value)
        })
        .collect()
}

/// JSON as it is shown.
#[derive(Default)]
struct Document {
    text: String,
    is_cut: bool,
}

impl Document {
    fn new(json: Option<&RawValue>, room: &mut PageBudget) -> Self {
        let mut text = pretty::json(json.map(RawValue::get).unwrap_or_default());
        let is_cut = room.take(&mut text, SHOWN_BYTES_MAX);
        Self { text, is_cut }
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
    /// How it has to end, if it need not complete.
    must: &'static str,
}

impl Graph {
    async fn load(ask: &Ask, job: &JobView) -> Self {
        let before: Vec<_> = job
            .depends_on
            .iter()
            .flatten()
            .map(|it| (it.job(), it.when()))
            .collect();
        let after: Vec<_> = job
            .dependents
            .iter()
            .flatten()
            .map(|id| (id.as_str(), When::Completed))
            .collect();
        let (before, before_more) = nodes(ask, &before).await;
        let (after, after_more) = nodes(ask, &after).await;
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
async fn nodes(ask: &Ask, jobs: &[(&str, When)]) -> (Vec<Node>, usize) {
    let mut nodes = Vec::new();
    for (id, when) in jobs.iter().take(NODES_SHOWN) {
        let query = FilterQuery {
            id: Some((*id).to_owned()),
            ..FilterQuery::default()
        };
        let page: Result<PageView<JobView>, Problem> = ask.get(path::JOBS, &query).await;
        let found = page.ok().and_then(|page| page.items.into_iter().next());
        let (handler, state) = found.map(|job| (job.handler, job.state)).unzip();
        nodes.push(Node {
            id: (*id).to_owned(),
            handler: handler.unwrap_or_else(|| (*id).to_owned()),
            state: state.unwrap_or_else(|| "purged".to_owned()),
            must: match when {
                When::Completed => "",
                When::Ended => "has to end",
                When::Failed => "has to fail",
            },
        });
    }
    (nodes, jobs.len().saturating_sub(NODES_SHOWN))
}

pub(crate) async fn show(
    ask: Ask,
    Path(id): Path<String>,
    Query(mut query): Query<LogQuery>,
) -> Result<Response, Problem> {
    let mut job: JobView = ask.get(&path::with_name(path::JOB, &id), &ALL).await?;
    let state = State::from_name(&job.state);
    let is_terminal = state.is_some_and(State::is_terminal);
    query.is_open = !is_terminal;
    // The rest of the page can be shown all the same.
    let (lines, lines_wrong) = match log::read(&ask, &job, &query).await {
        Ok(lines) => (lines, None),
        Err(problem) => (Lines::default(), Some(problem.detail)),
    };
    let mut room = PageBudget(ROOM_BYTES);
    let attributes = fit_job(&mut job, &mut room);
    let json = job.failure.as_ref().and_then(|it| it.details.as_deref());
    let details = Document::new(json, &mut room);
    let params = Document::new(job.params.as_deref(), &mut room);
    let result = Document::new(job.result.as_deref(), &mut room);
    let from = query
        .attempts_after
        .unwrap_or_else(|| job.attempt.saturating_sub(ATTEMPTS_SHOWN));
    let attempts = attempts(&ask, &job, from, &mut room).await?;
    let timeline = draw(ask.now, &job, attempts.iter().map(|row| &row.attempt));
    let graph = Graph::load(&ask, &job).await;
    let mut frame = ask
        .frame(format!("{} {}", job.handler, job.id), "/jobs")
        .same_as(
            Command::new("job show").name(&job.id),
            path::with_name(path::JOB, &job.id),
        );
    if !is_terminal {
        let here = LogQuery {
            live: None,
            ..query.clone()
        };
        let what = format!("job={}", job.id);
        frame = frame.live(&here.address(&job.id), query.live.is_some(), &what);
    }
    let at = |query: LogQuery, part: &str| format!("{}#{part}", query.address(&job.id));
    let attempts_at = |after| {
        let query = LogQuery {
            attempts_after: Some(after),
            ..query.clone()
        };
        at(query, "attempts")
    };
    let behind = from.saturating_add(ATTEMPTS_SHOWN);
    Ok(show_part(&lines.found, 0, |found, rest| {
        let mut found = Vec::from_iter(found);
        if query.is_tail() {
            found.reverse();
        }
        let last = found.last().map(|line| line.seq);
        let next = match rest {
            Some(_) if !query.is_tail() => last,
            _ => lines.next,
        };
        let lines_at = |after: Option<u64>| LogQuery {
            after: after.map(|seq| seq.to_string()),
            tail: after.is_none().then(|| "on".to_owned()),
            ..query.clone()
        };
        let has_rest = next.is_some() && !query.is_tail();
        Page {
            frame: frame.clone(),
            job: &job,
            attributes: &attributes,
            details: &details,
            attempts: &attempts,
            attempts_before: (from > 0).then(|| attempts_at(from.saturating_sub(ATTEMPTS_SHOWN))),
            attempts_behind: (behind < job.attempt).then(|| attempts_at(behind)),
            timeline: &timeline,
            params: &params,
            result: &result,
            graph: &graph,
            lines: found,
            query: &query,
            attempt_numbers: (1..=job.attempt).rev().take(ATTEMPTS_OFFERED).collect(),
            searched: lines.searched,
            lines_wrong: lines_wrong.as_deref(),
            lines_next: next.map(|next| at(lines_at(Some(next)), "log")),
            lines_last: has_rest.then(|| at(lines_at(None), "log")),
            done: what_was_done(&query.done),
            can_cancel: !is_terminal && job.cancel_requested_at.is_none(),
            can_retry: matches!(state, Some(State::Discarded | State::Cancelled)),
            can_purge: is_terminal,
        }
    }))
}

/// Reads the attempts behind one.
async fn attempts(
    ask: &Ask,
    job: &JobView,
    after: u32,
    room: &mut PageBudget,
) -> Result<Vec<Row>, Problem> {
    let query = PageQuery {
        limit: Some(ATTEMPTS_SHOWN),
        cursor: Some(after.to_string()),
    };
    let route = path::with_name(path::JOB_ATTEMPTS, &job.id);
    let page: PageView<AttemptView> = ask.get(&route, &query).await?;
    let from = Some(job.enqueued_at.as_str()).filter(|_| after == 0);
    Ok(rows(from, page.items, room))
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
    let _: Value = ask.post(&path::with_name(route, &id), &ALL, &body).await?;
    Ok(crate::see(&if asked.action == "purge" {
        "/jobs".to_owned()
    } else {
        format!("{here}?done={}", asked.action)
    }))
}

/// Says what an action of the page has done.
fn what_was_done(action: &str) -> Option<&'static str> {
    match action {
        "cancel" => Some(
            "Its cancel was requested. A job that waits ends immediately, and one that runs within its grace.",
        ),
        "retry" => Some("It will run again as soon as a slot is free."),
        "priority" => Some("Its priority was set."),
        "enqueued" => Some("It was enqueued."),
        _ => None,
    }
}

pub(crate) fn unknown_action() -> Problem {
    let detail = "the form names an action that this page does not have";
    Problem::bad_request("Nothing was done", detail, "Load the page again.")
}

/// Enqueues a job and shows it, or the form again with what is wrong. The form has the params as they are, or field by field.
pub(crate) async fn enqueue(
    ask: Ask,
    Form(typed): Form<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let problem = match enqueue_typed(&ask, &typed).await {
        Ok(id) => return Ok(crate::see(&format!("/jobs/{id}?done=enqueued"))),
        Err(problem) => problem,
    };
    let is_input = matches!(
        problem.status,
        StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY
    );
    let Some(handler) = value_of(&typed, "handler").filter(|_| is_input) else {
        return Err(problem);
    };
    let handler = handler.to_owned();
    let start = FormStart {
        params: value_of(&typed, "params").unwrap_or("{}").to_owned(),
        queue: value_of(&typed, "queue").unwrap_or_default().to_owned(),
        wrong: Some(problem.detail.clone()),
        typed,
        ..FormStart::default()
    };
    // A caller that may not see the handler sees what is wrong all the same.
    handlers::page(&ask, &handler, start).await.or(Err(problem))
}

/// Returns what a field of a form has.
fn value_of<'a>(typed: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let field = typed.iter().find(|(typed, _)| typed == name);
    field.map(|(_, value)| value.trim())
}

/// Enqueues the job that a form describes, and returns its id.
async fn enqueue_typed(ask: &Ask, typed: &[(String, String)]) -> Result<String, Problem> {
    let refused = |detail: String| {
        Problem::bad_request("Not enqueued", detail, "Go back and correct the params.")
    };
    let missing = || refused("handler: missing".to_owned());
    let handler = value_of(typed, "handler").ok_or_else(missing)?;
    let text = match value_of(typed, "params") {
        Some("") => "null".to_owned(),
        Some(params) => params.to_owned(),
        None => {
            let handler: HandlerView = ask
                .get(&path::with_name(path::HANDLER, handler), &ALL)
                .await?;
            let schema = handler.params_schema.as_deref().map(RawValue::get);
            let fields = schema.and_then(fields::parse).unwrap_or_default();
            fields::params(&fields, typed).map_err(refused)?
        }
    };
    // As it was typed: no digit of a number is lost.
    let params = RawValue::from_string(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        refused(format!(
            "params: not valid JSON at line {line}, column {column}"
        ))
    })?;
    let job = NewJobBody {
        handler: handler.to_owned(),
        params: Some(params),
        queue: value_of(typed, "queue")
            .filter(|it| !it.is_empty())
            .map(str::to_owned),
        ..NewJobBody::default()
    };
    let accepted: AcceptedView = ask.post(path::JOBS, &ALL, &job).await?;
    Ok(accepted.id)
}
