//! Changes of jobs: of those that were marked, or of all that match a filter, with a question first.

use askama::Template;
use axum::response::Response;
use host_api::change::{CountView, ManyView, RefusalView};
use host_api::filter::FilterQuery;
use host_api::filter_text;
use host_api::job::JobView;
use host_api::page::PageView;
use host_api::path;
use host_core::job::PRIORITY_LAST;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::ALL;
use super::jobs::{JOBS_SHOWN, actions, how_many};
use crate::ask::{Ask, Problem};
use crate::filter::{Shown, jobs};
use crate::form::Form;
use crate::page::{Confirm, Frame, show};

/// How many of the jobs are shown before the change.
const SAMPLES: u32 = 5;

/// From how many jobs on a click is not enough.
const TYPED_FROM: u64 = 100;

/// How many jobs one request to the API changes.
const JOBS_AT_ONCE: u32 = 500;

/// How many such requests follow each other. Then somebody says whether to go on.
const REQUESTS: u32 = 20;

/// How many refusals of a change are shown.
const REFUSALS_SHOWN: usize = 10;

/// What a form asks for.
#[derive(Default)]
struct Change {
    action: String,
    q: String,
    sure: bool,
    /// What was typed, if a click is not enough.
    typed: String,
    /// The priority to set.
    priority: String,
    /// Whether only the jobs of `ids` are meant.
    is_selection: bool,
    ids: Vec<String>,
    /// How many were changed before.
    changed: u64,
    refused: u64,
    cursor: Option<String>,
}

impl From<Vec<(String, String)>> for Change {
    fn from(fields: Vec<(String, String)>) -> Self {
        let mut change = Self::default();
        for (name, value) in fields {
            match name.as_str() {
                "action" => change.action = value,
                "q" => change.q = value,
                "sure" => change.sure = value == "true",
                "typed" => change.typed = value,
                "priority" => change.priority = value,
                "selection" => change.is_selection = true,
                "id" => change.ids.push(value),
                "changed" => change.changed = value.parse().unwrap_or_default(),
                "refused" => change.refused = value.parse().unwrap_or_default(),
                "cursor" => change.cursor = Some(value),
                _ => {}
            }
        }
        change
    }
}

/// How the API carries out a change.
struct Action {
    /// What is done, before "12 jobs".
    words: String,
    /// The route for all jobs that match, and that for one.
    routes: [&'static str; 2],
    body: Value,
}

impl Action {
    fn of(change: &Change) -> Result<Self, Problem> {
        let (words, routes) = match change.action.as_str() {
            "retry" => ("Retry", [path::JOBS_RETRY, path::JOB_RETRY]),
            "cancel" => ("Cancel", [path::JOBS_CANCEL, path::JOB_CANCEL]),
            "purge" => ("Purge", [path::JOBS_PURGE, path::JOB_PURGE]),
            "priority" => return Self::set_priority(&change.priority),
            other => return Err(wrong(format!("`{other}` is not a change of jobs"))),
        };
        let (words, body) = (words.to_owned(), json!({}));
        Ok(Self {
            words,
            routes,
            body,
        })
    }

    fn set_priority(text: &str) -> Result<Self, Problem> {
        let read = text.trim().parse::<u8>().ok();
        let priority = read.filter(|read| *read <= PRIORITY_LAST);
        let wanted = || wrong(format!("priority must be 0–{PRIORITY_LAST}, got `{text}`"));
        let priority = priority.ok_or_else(wanted)?;
        Ok(Self {
            words: format!("Set priority {priority} for"),
            routes: [path::JOBS_PRIORITY, path::JOB_PRIORITY],
            body: json!({"priority": priority}),
        })
    }
}

#[derive(Template)]
#[template(path = "changed.html")]
struct Page {
    frame: Frame,
    change: Change,
    refusals: Vec<RefusalView>,
    back: String,
}

pub(crate) async fn change(
    ask: Ask,
    Form(fields): Form<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let change = Change::from(fields);
    let action = Action::of(&change)?;
    if change.is_selection {
        return selected(&ask, change, &action).await;
    }
    let filter = Shown::of(&change.q).filter(ask.now).map_err(wrong)?;
    let state = filter
        .state
        .ok_or_else(|| wrong("the filter must have a state".to_owned()))?;
    if !actions(state)
        .iter()
        .any(|(action, _)| *action == change.action)
    {
        let detail = format!("{} jobs cannot be changed this way", state.as_str());
        return Err(wrong(detail));
    }
    if !change.sure {
        return confirm(&ask, &change, &action, &filter, "").await;
    }
    // Only the first request of a change was typed; the others continue it.
    if change.cursor.is_none() && change.changed == 0 {
        let count = count(&ask, &filter).await?;
        if count.jobs > TYPED_FROM && change.typed.trim() != typed(&change, &count) {
            let first = "What was typed is not that. ";
            return confirm(&ask, &change, &action, &filter, first).await;
        }
    }
    let mut done = Page::new(&ask, change);
    for _ in 0..REQUESTS {
        let query = FilterQuery {
            limit: Some(JOBS_AT_ONCE),
            cursor: done.change.cursor.take(),
            ..filter.clone()
        };
        let many: ManyView = ask.post(action.routes[0], &query, &action.body).await?;
        done.change.changed += many.changed;
        done.change.refused += many.refused;
        done.refusals.extend(many.refusals);
        done.refusals.truncate(REFUSALS_SHOWN);
        done.change.cursor = many.next_cursor;
        if done.change.cursor.is_none() {
            break;
        }
    }
    Ok(show(&done))
}

/// Changes the jobs that were marked on a page.
async fn selected(ask: &Ask, change: Change, action: &Action) -> Result<Response, Problem> {
    if change.ids.is_empty() {
        return Err(wrong("no job is selected".to_owned()));
    }
    if change.ids.len() > JOBS_SHOWN as usize {
        let selected = change.ids.len();
        return Err(wrong(format!(
            "at most {JOBS_SHOWN} jobs can be selected, got {selected}"
        )));
    }
    if !change.sure {
        let those = how_many(change.ids.len() as u64, true);
        let mut fields = vec![
            ("action", change.action),
            ("priority", change.priority),
            ("q", change.q.clone()),
            ("selection", "true".to_owned()),
        ];
        fields.extend(change.ids.iter().map(|id| ("id", id.clone())));
        return Ok(show(&Confirm {
            frame: ask.frame(format!("{} {those}?", action.words), "/jobs"),
            question: format!("{} {those}?", action.words),
            samples: change.ids,
            to: "/jobs/change".to_owned(),
            fields,
            typed: None,
            button: format!("{} {those}", action.words),
            back: jobs(&change.q),
        }));
    }
    let mut done = Page::new(ask, change);
    for id in std::mem::take(&mut done.change.ids) {
        let route = path::of(action.routes[1], &id);
        let changed: Result<IgnoredAny, Problem> = ask.post(&route, &ALL, &action.body).await;
        match changed {
            Ok(_) => done.change.changed += 1,
            Err(problem) if problem.status.is_client_error() => {
                done.change.refused += 1;
                let Problem { code, detail, .. } = problem;
                done.refusals.push(RefusalView { id, code, detail });
            }
            Err(problem) => return Err(problem),
        }
    }
    Ok(show(&done))
}

impl Page {
    fn new(ask: &Ask, change: Change) -> Self {
        Self {
            frame: ask.frame("Changed jobs", "/jobs"),
            refusals: Vec::new(),
            back: jobs(&change.q),
            change,
        }
    }
}

fn wrong(detail: String) -> Problem {
    Problem::refused(
        "Nothing was changed",
        detail,
        "Go back and choose other jobs.",
    )
}

async fn count(ask: &Ask, filter: &FilterQuery) -> Result<CountView, Problem> {
    ask.get(path::JOBS_COUNT, filter).await
}

fn typed(change: &Change, count: &CountView) -> String {
    format!("{} {}", change.action, count.jobs)
}

async fn confirm(
    ask: &Ask,
    change: &Change,
    action: &Action,
    filter: &FilterQuery,
    first: &str,
) -> Result<Response, Problem> {
    // What is enqueued from now on was not on the page.
    let filter = FilterQuery {
        until: filter.until.clone().or(Some(ask.now.to_rfc3339())),
        ..filter.clone()
    };
    let q = filter_text::write(&filter);
    let count = count(ask, &filter).await?;
    let query = FilterQuery {
        limit: Some(SAMPLES),
        ..filter
    };
    let sample: PageView<JobView> = ask.get(path::JOBS, &query).await?;
    let samples = sample.items.into_iter();
    let samples = samples.map(|job| format!("{} {} in {}", job.id, job.handler, job.queue));
    let (words, those) = (&action.words, how_many(count.jobs, count.complete));
    let confirm = Confirm {
        frame: ask.frame(format!("{words} {those}?"), "/jobs"),
        question: format!("{first}{words} {those} that match `{q}`?"),
        samples: samples.collect(),
        to: "/jobs/change".to_owned(),
        fields: vec![
            ("action", change.action.clone()),
            ("priority", change.priority.clone()),
            ("q", q),
        ],
        typed: (count.jobs > TYPED_FROM).then(|| typed(change, &count)),
        button: format!("{words} {those}"),
        back: jobs(&change.q),
    };
    Ok(show(&confirm))
}
