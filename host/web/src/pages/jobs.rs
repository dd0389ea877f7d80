//! The jobs that match a filter.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;

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
    tabs: Vec<Tab>,
    /// The parts of the filter, each with the page without it, and parts that would narrow it.
    chips: Vec<(String, String)>,
    narrower: Vec<(String, String)>,
    /// The name of the only state that is shown.
    only: &'static str,
    columns: Columns,
    keys: &'static str,
}

/// The jobs of a state that match the rest of the filter.
struct Tab {
    name: &'static str,
    page: String,
    /// How many there are, if counters know.
    count: Option<u64>,
    is_shown: bool,
}

/// The columns that not every state has.
#[expect(clippy::struct_excessive_bools, reason = "each is a column")]
struct Columns {
    failure: bool,
    progress: bool,
    due: bool,
    end: bool,
    run: bool,
}

impl Columns {
    fn new(only: Option<State>, shown: &[JobView]) -> Self {
        let is = |states: &[State]| only.is_some_and(|it| states.contains(&it));
        Self {
            failure: shown.iter().any(|job| job.failure.is_some()),
            progress: shown.iter().any(|job| job.progress.is_some()),
            due: is(&[State::Scheduled, State::Retryable]),
            end: only.is_some_and(State::is_terminal),
            run: !is(&[State::Pending, State::Scheduled, State::Available]),
        }
    }
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
    let narrower = narrower(&filter, &page.items);
    for job in &mut page.items {
        fit(job);
    }
    let columns = Columns::new(filter.state, &page.items);
    let counters = counters(&ask, &filter).await?;
    let count = if let Some(counters) = &counters {
        how_many(sum(counters, filter.state), true)
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
        tabs: tabs(&filter, counters.as_ref()),
        chips: chips(&filter),
        narrower,
        only: filter.state.map_or("", State::as_str),
        columns,
        shown: filter_text::write(&until_now(&ask, filter)),
        q: shown.q,
        wrong: None,
        jobs: page.items,
        count,
        next,
        actions,
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
        tabs: tabs(&Filter::default(), None),
        chips: Vec::new(),
        narrower: Vec::new(),
        only: "",
        columns: Columns::new(None, &[]),
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

/// How many jobs are in each state.
type Counters = BTreeMap<State, u64>;

/// Returns how many jobs of the filter's queue, or of all, are in each state, if the filter names no more than a state and a
/// queue: a page counts no jobs one by one.
async fn counters(ask: &Ask, filter: &Filter) -> Result<Option<Counters>, Problem> {
    let rest = Filter {
        state: None,
        queue: None,
        sort: None,
        ..filter.clone()
    };
    if !filter_text::write(&rest).is_empty() {
        return Ok(None);
    }
    let queues = ask.queues().await?;
    let is_meant = |queue: &&QueueView| filter.queue.as_ref().is_none_or(|it| *it == queue.name);
    let meant: Vec<_> = queues.iter().filter(is_meant).collect();
    let count = |state| meant.iter().map(|queue| queue.count(state)).sum();
    Ok(Some(STATES.map(|state| (state, count(state))).into()))
}

/// Returns how many jobs are in a state, or in any.
fn sum(counters: &Counters, only: Option<State>) -> u64 {
    let is_meant = |state: &State| only.is_none_or(|only| only == *state);
    let meant = counters.iter().filter(|(state, _)| is_meant(state));
    meant.map(|(_, count)| count).sum()
}

/// Returns the tabs of all jobs and of each state.
fn tabs(filter: &Filter, counters: Option<&Counters>) -> Vec<Tab> {
    let tab = |state: Option<State>| {
        let tab = Filter {
            state,
            ..filter.clone()
        };
        Tab {
            name: state.map_or("all", State::as_str),
            page: jobs(filter_text::write(&tab)),
            count: counters.map(|counters| sum(counters, state)),
            is_shown: filter.state == state,
        }
    };
    let all = [None].into_iter().chain(STATES.map(Some));
    all.map(tab).collect()
}

/// Moves a part of a filter to another one.
type Move = fn(&mut Filter, &mut Filter);

/// Returns the parts of a filter besides its state and order, each with the page without it.
fn chips(filter: &Filter) -> Vec<(String, String)> {
    const MOVES: &[Move] = &[
        |from, to| to.queue = from.queue.take(),
        |from, to| to.handler = from.handler.take(),
        |from, to| to.failure = from.failure.take(),
        |from, to| to.fingerprint = from.fingerprint.take(),
        |from, to| to.wire = from.wire.take(),
        |from, to| to.unique_key = from.unique_key.take(),
        |from, to| to.batch = from.batch.take(),
        |from, to| to.id = from.id.take(),
        |from, to| to.since = from.since.take(),
        |from, to| to.until = from.until.take(),
        |from, to| to.attributes = take(&mut from.attributes),
        |from, to| to.params = take(&mut from.params),
        |from, to| to.words = take(&mut from.words),
    ];
    let chip = |part: &Move| {
        let (mut rest, mut only) = (filter.clone(), Filter::default());
        part(&mut rest, &mut only);
        (filter_text::write(&only), jobs(filter_text::write(&rest)))
    };
    let chips = MOVES.iter().map(chip);
    chips.filter(|(text, _)| !text.is_empty()).collect()
}

/// How many values of a key are offered to narrow a filter, and the longest such value, in bytes.
const VALUES_OFFERED: usize = 6;
const VALUE_BYTES_MAX: usize = 100;

/// Returns parts that some of the jobs match and others do not, each with the page of those that do.
fn narrower(filter: &Filter, shown: &[JobView]) -> Vec<(String, String)> {
    let kind = |job: &JobView| {
        let failure = job.failure.as_ref()?;
        Some(failure.user_kind.as_ref().unwrap_or(&failure.kind).clone())
    };
    let only = |failure, handler, queue| Filter {
        failure,
        handler,
        queue,
        ..Filter::default()
    };
    let parts: [(bool, Vec<Filter>); 3] = [
        (
            filter.failure.is_some(),
            distinct(shown.iter().filter_map(kind))
                .map(|it| only(Some(it), None, None))
                .collect(),
        ),
        (
            filter.handler.is_some(),
            distinct(shown.iter().map(|job| job.handler.clone()))
                .map(|it| only(None, Some(it), None))
                .collect(),
        ),
        (
            filter.queue.is_some(),
            distinct(shown.iter().map(|job| job.queue.clone()))
                .map(|it| only(None, None, Some(it)))
                .collect(),
        ),
    ];
    let news = parts
        .into_iter()
        .filter(|(is_set, values)| !is_set && values.len() > 1);
    let chip = |part: Filter| {
        let text = filter_text::write(&part);
        let both = Filter {
            failure: part.failure.or_else(|| filter.failure.clone()),
            handler: part.handler.or_else(|| filter.handler.clone()),
            queue: part.queue.or_else(|| filter.queue.clone()),
            ..filter.clone()
        };
        (text, jobs(filter_text::write(&both)))
    };
    news.flat_map(|(_, values)| values).map(chip).collect()
}

/// Returns the first values that differ and are short.
fn distinct(values: impl Iterator<Item = String>) -> impl Iterator<Item = String> {
    let is_short = |value: &String| value.len() <= VALUE_BYTES_MAX;
    let ordered: BTreeSet<String> = values.filter(is_short).collect();
    ordered.into_iter().take(VALUES_OFFERED)
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
