//! The jobs that match a filter.

use askama::Template;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use host_api::change::CountView;
use host_api::filter::FilterQuery;
use host_api::filter_text::KEYS;
use host_api::job::JobView;
use host_api::page::PageView;
use host_api::path;
use host_core::job::{STATES, State};
use host_core::query::Order;

use crate::ask::{Ask, Problem};
use crate::filter::Shown;
use crate::format::number;
use crate::page::{Frame, Verb, show, with_status};

/// How many jobs a page has.
const JOBS_SHOWN: u32 = 50;

#[derive(Template)]
#[template(path = "jobs.html")]
struct Page {
    frame: Frame,
    q: String,
    wrong: Option<String>,
    jobs: Vec<JobView>,
    count: String,
    next: Option<String>,
    /// The changes that all of them allow: the word of the action and of its button.
    actions: Vec<(&'static str, &'static str)>,
    states: Vec<&'static str>,
    keys: &'static str,
}

pub(crate) async fn list(ask: Ask, Query(shown): Query<Shown>) -> Result<Response, Problem> {
    let filter = match shown.filter(ask.now) {
        Ok(filter) => filter,
        Err(wrong) => return Ok(refused(&ask, shown.q, wrong)),
    };
    let counted: Result<CountView, Problem> = ask.get(path::JOBS_COUNT, &filter).await;
    let query = FilterQuery {
        limit: Some(JOBS_SHOWN),
        cursor: shown.cursor.clone(),
        ..filter.clone()
    };
    let page: PageView<JobView> = match ask.get(path::JOBS, &query).await {
        Ok(page) => page,
        Err(problem) if problem.status == StatusCode::BAD_REQUEST => {
            return Ok(refused(&ask, shown.q, problem.detail));
        }
        Err(problem) => return Err(problem),
    };
    let count = counted.map(|count| how_many(&count)).unwrap_or_default();
    let next = page.next_cursor.map(|cursor| {
        let next = Shown {
            cursor: Some(cursor),
            ..shown.clone()
        };
        next.address()
    });
    let here = Shown {
        live: None,
        ..shown.clone()
    };
    let query = serde_urlencoded::to_string(&filter).unwrap_or_default();
    let joint = if query.is_empty() { "" } else { "?" };
    let mut actions = filter.state.map(actions).unwrap_or_default();
    actions.retain(|(action, _)| ask.may(verb(action)));
    let frame = ask
        .frame("Jobs", "/jobs")
        .same_as(command(&filter), format!("{}{joint}{query}", path::JOBS));
    Ok(show(&Page {
        frame: frame.live(&here.address(), shown.live.is_some()),
        q: shown.q,
        wrong: None,
        jobs: page.items,
        count,
        next,
        actions,
        states: STATES.iter().map(|state| state.as_str()).collect(),
        keys: KEYS,
    }))
}

fn refused(ask: &Ask, q: String, wrong: String) -> Response {
    let page = Page {
        frame: ask.frame("Jobs", "/jobs"),
        q,
        wrong: Some(wrong),
        jobs: Vec::new(),
        count: String::new(),
        next: None,
        actions: Vec::new(),
        states: STATES.iter().map(|state| state.as_str()).collect(),
        keys: KEYS,
    };
    with_status(StatusCode::BAD_REQUEST, &page)
}

/// Writes how many jobs match.
pub(crate) fn how_many(count: &CountView) -> String {
    let least = if count.complete { "" } else { "at least " };
    format!("{least}{} jobs", number(count.jobs))
}

/// Returns the changes of many jobs that a state allows.
pub(crate) fn actions(state: State) -> Vec<(&'static str, &'static str)> {
    match state {
        State::Discarded | State::Cancelled => vec![("retry", "Retry all"), ("purge", "Purge all")],
        State::Completed => vec![("purge", "Purge all")],
        _ => vec![("cancel", "Cancel all")],
    }
}

/// Returns the verb that a change of many jobs needs.
fn verb(action: &str) -> Verb {
    match action {
        "retry" => Verb::Retry,
        "cancel" => Verb::Cancel,
        _ => Verb::Operate,
    }
}

/// Returns the command that lists the same jobs.
fn command(filter: &FilterQuery) -> String {
    let sort = filter.sort.map(|order| match order {
        Order::Newest => "newest",
        Order::Oldest => "oldest",
    });
    let options = [
        (
            "--state",
            filter.state.map(|state| state.as_str().to_owned()),
        ),
        ("--queue", filter.queue.clone()),
        ("--handler", filter.handler.clone()),
        ("--failure", filter.failure.clone()),
        ("--wire", filter.wire.clone()),
        ("--unique-key", filter.unique_key.clone()),
        ("--since", filter.since.clone()),
        ("--until", filter.until.clone()),
        ("--attribute", filter.attribute.clone()),
        ("--id", filter.id.clone()),
        ("--sort", sort.map(str::to_owned)),
    ];
    let mut command = "host job ls".to_owned();
    for (option, value) in options {
        if let Some(value) = value {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:=/#".contains(c);
            let value = if value.chars().all(plain) {
                value
            } else {
                format!("'{}'", value.replace('\'', "'\\''"))
            };
            command = format!("{command} {option} {value}");
        }
    }
    command
}
