//! The jobs that match a filter.

use askama::Template;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::Response;
use host_api::filter::FilterQuery;
use host_api::filter_text::{self, Filter, KEYS};
use host_api::job::JobView;
use host_api::page::PageView;
use host_api::path;
use host_api::queue::QueueView;
use host_core::job::{STATES, State};
use host_core::query::Order;

use super::ALL;
use crate::ask::{Ask, Problem};
use crate::filter::{JobListQuery, jobs};
use crate::format::{self, shorten};
use crate::page::{Frame, Verb, show, with_status};
use crate::same::{Command, with_query};

/// How many jobs a page has.
pub(super) const JOBS_SHOWN: u32 = 50;

/// The most that a list shows of a handler's own name of an error, in bytes.
const OWN_NAME_BYTES_MAX: usize = 100;

#[derive(Template)]
#[template(path = "jobs.html")]
struct Page {
    frame: Frame,
    q: String,
    wrong: Option<String>,
    jobs: Vec<JobView>,
    count: String,
    next: Option<String>,
    /// The same jobs in the other order: its name and address.
    turned: (&'static str, String),
    /// The filter of exactly what was there when the page was made, for the forms that change it.
    shown: String,
    /// The changes that they allow: the word of the action and of its button.
    actions: Vec<(&'static str, &'static str)>,
    states: Vec<&'static str>,
    keys: &'static str,
}

pub(crate) async fn list(ask: Ask, Query(shown): Query<JobListQuery>) -> Result<Response, Problem> {
    let filter = match shown.filter(ask.now) {
        Ok(filter) => filter,
        Err(wrong) => return Ok(wrong_filter_page(&ask, shown.q, wrong)),
    };
    let same = FilterQuery {
        q: Some(shown.q.clone()).filter(|q| !q.is_empty()),
        limit: Some(JOBS_SHOWN),
        cursor: shown.cursor.clone(),
        ..FilterQuery::default()
    };
    let mut page: PageView<JobView> = match ask.get(path::JOBS, &same).await {
        Ok(page) => page,
        Err(problem) if problem.status == StatusCode::BAD_REQUEST => {
            return Ok(wrong_filter_page(&ask, shown.q, problem.detail));
        }
        Err(problem) => return Err(problem),
    };
    for job in &mut page.items {
        fit(job);
    }
    let count = if let Some(jobs) = counters(&ask, &filter).await? {
        how_many(jobs, true)
    } else {
        let is_all = shown.cursor.is_none() && page.next_cursor.is_none();
        how_many(page.items.len() as u64, is_all)
    };
    let next = page.next_cursor.map(|cursor| {
        let next = JobListQuery {
            cursor: Some(cursor),
            ..shown.clone()
        };
        next.address()
    });
    let here = JobListQuery {
        live: None,
        ..shown.clone()
    };
    // What happens in other queues changes nothing here.
    let queue = filter.queue.as_deref().map(|queue| ("queue", queue));
    let what = serde_urlencoded::to_string(Vec::from_iter(queue)).unwrap_or_default();
    let mut actions = ACTIONS.to_vec();
    actions.retain(|(action, _)| ask.may(verb(action)) && !states(action, filter.state).is_empty());
    let command = Command::new("job ls")
        .option("--filter", &shown.q)
        .option("--limit", &JOBS_SHOWN.to_string());
    let frame = ask
        .frame("Jobs", "/jobs")
        .same_as(command, with_query(path::JOBS, &same));
    Ok(show(&Page {
        frame: frame.live(&here.address(), shown.live.is_some(), &what),
        turned: reverse_order(&filter),
        shown: filter_text::write(&until_now(&ask, filter)),
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

/// Cuts what is too long for a list.
pub(super) fn fit(job: &mut JobView) {
    let name = job.failure.as_mut().and_then(|it| it.user_kind.as_mut());
    if let Some(name) = name {
        shorten(name, OWN_NAME_BYTES_MAX);
    }
}

fn wrong_filter_page(ask: &Ask, q: String, wrong: String) -> Response {
    let page = Page {
        frame: ask.frame("Jobs", "/jobs"),
        q,
        wrong: Some(wrong),
        jobs: Vec::new(),
        count: String::new(),
        next: None,
        turned: ("", String::new()),
        shown: String::new(),
        actions: Vec::new(),
        states: STATES.iter().map(|state| state.as_str()).collect(),
        keys: KEYS,
    };
    with_status(StatusCode::BAD_REQUEST, &page)
}

/// Leaves out what is enqueued from now on: it is not on the page.
pub(super) fn until_now(ask: &Ask, filter: Filter) -> Filter {
    Filter {
        until: filter.until.or_else(|| Some(ask.now.to_rfc3339())),
        ..filter
    }
}

/// Returns the other order of a list: its name and address.
fn reverse_order(filter: &Filter) -> (&'static str, String) {
    let (name, sort) = match filter.sort.unwrap_or_default() {
        Order::Newest => ("oldest first", Some(Order::Oldest)),
        Order::Oldest => ("newest first", None),
    };
    let turned = Filter {
        sort,
        ..filter.clone()
    };
    (name, jobs(filter_text::write(&turned)))
}

/// Returns how many jobs match, if counters know: those of a state, of a queue or both. A page counts no jobs one by
/// one.
async fn counters(ask: &Ask, filter: &Filter) -> Result<Option<u64>, Problem> {
    let rest = Filter {
        state: None,
        queue: None,
        sort: None,
        ..filter.clone()
    };
    if !filter_text::write(&rest).is_empty() {
        return Ok(None);
    }
    let queues: PageView<QueueView> = ask.get(path::QUEUES, &ALL).await?;
    let is_meant = |queue: &&QueueView| filter.queue.as_ref().is_none_or(|it| *it == queue.name);
    let count = |queue: &QueueView| {
        let states = STATES
            .into_iter()
            .filter(|it| filter.state.is_none_or(|state| state == *it));
        states.map(|state| queue.count(state)).sum::<u64>()
    };
    Ok(Some(queues.items.iter().filter(is_meant).map(count).sum()))
}

/// Writes how many jobs match.
pub(crate) fn how_many(number_of: u64, complete: bool) -> String {
    let least = if complete { "" } else { "at least " };
    format!("{least}{}", format::jobs(number_of))
}

/// Returns the verb that a change of many jobs needs.
fn verb(action: &str) -> Verb {
    match action {
        "retry" => Verb::Retry,
        "cancel" => Verb::Cancel,
        _ => Verb::Operate,
    }
}

/// The changes of many jobs.
const ACTIONS: &[(&str, &str)] = &[
    ("retry", "Retry"),
    ("cancel", "Cancel"),
    ("priority", "Set priority of"),
    ("purge", "Purge"),
];

/// Returns whether a change takes something away.
pub(crate) fn is_destructive(action: &str) -> bool {
    matches!(action, "cancel" | "purge")
}

/// Returns the states of the jobs that a change can change: only this one, if there is one. A job goes through them in
/// this order.
pub(super) fn states(action: &str, only: Option<State>) -> Vec<State> {
    let allowed = match action {
        "retry" => &[State::Discarded, State::Cancelled][..],
        "purge" => &[State::Completed, State::Discarded, State::Cancelled],
        "cancel" | "priority" => &[
            State::Pending,
            State::Scheduled,
            State::Retryable,
            State::Available,
            State::Running,
        ],
        _ => &[],
    };
    let is_meant = |state: &State| only.is_none_or(|only| only == *state);
    allowed.iter().copied().filter(is_meant).collect()
}
