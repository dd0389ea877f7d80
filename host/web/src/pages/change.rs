//! Changes of all jobs that match a filter: a question with a sample first, then page by page.

use askama::Template;
use axum::response::Response;
use host_api::change::{CountView, ManyView, RefusalView};
use host_api::filter::FilterQuery;
use host_api::filter_text;
use host_api::job::JobView;
use host_api::page::PageView;
use host_api::path;
use serde::Deserialize;
use serde_json::json;

use super::jobs::{actions, how_many};
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

#[derive(Deserialize)]
pub(crate) struct Change {
    action: String,
    q: String,
    #[serde(default)]
    sure: bool,
    /// What was typed, if a click is not enough.
    #[serde(default)]
    typed: String,
    /// How many were changed before.
    #[serde(default)]
    changed: u64,
    #[serde(default)]
    refused: u64,
    #[serde(default)]
    cursor: Option<String>,
}

#[derive(Template)]
#[template(path = "changed.html")]
struct Page {
    frame: Frame,
    action: String,
    changed: u64,
    refused: u64,
    refusals: Vec<RefusalView>,
    q: String,
    /// Where to go on, if there are more.
    cursor: Option<String>,
    back: String,
}

pub(crate) async fn change(ask: Ask, Form(change): Form<Change>) -> Result<Response, Problem> {
    let wrong = |detail: String| {
        let next = "Go back and correct the filter.";
        Problem::refused("Nothing was changed", detail, next)
    };
    let filter = Shown::of(&change.q).filter(ask.now).map_err(wrong)?;
    let state = filter
        .state
        .ok_or_else(|| wrong("the filter must have a state".to_owned()))?;
    let route = match change.action.as_str() {
        "retry" => path::JOBS_RETRY,
        "cancel" => path::JOBS_CANCEL,
        "purge" => path::JOBS_PURGE,
        _ => {
            return Err(wrong(format!(
                "`{}` is not a change of jobs",
                change.action
            )));
        }
    };
    if !actions(state)
        .iter()
        .any(|(action, _)| *action == change.action)
    {
        let detail = format!("{} jobs cannot be changed this way", state.as_str());
        return Err(wrong(detail));
    }
    if !change.sure {
        return confirm(&ask, &change, &filter, "").await;
    }
    // Only the first request of a change was typed; the others continue it.
    if change.cursor.is_none() && change.changed == 0 {
        let count = count(&ask, &filter).await?;
        if count.jobs > TYPED_FROM && change.typed.trim() != typed(&change, &count) {
            return confirm(&ask, &change, &filter, "What was typed is not that. ").await;
        }
    }
    let mut done = Page {
        frame: ask.frame("Changed jobs", "/jobs"),
        action: change.action,
        changed: change.changed,
        refused: change.refused,
        refusals: Vec::new(),
        cursor: change.cursor,
        back: jobs(&change.q),
        q: change.q,
    };
    for _ in 0..REQUESTS {
        let query = FilterQuery {
            limit: Some(JOBS_AT_ONCE),
            cursor: done.cursor.take(),
            ..filter.clone()
        };
        let many: ManyView = ask.post(route, &query, &json!({})).await?;
        done.changed += many.changed;
        done.refused += many.refused;
        done.refusals.extend(many.refusals);
        done.refusals.truncate(10);
        done.cursor = many.next_cursor;
        if done.cursor.is_none() {
            break;
        }
    }
    Ok(show(&done))
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
    let (action, those) = (&change.action, how_many(count.jobs, count.complete));
    let mut verb = action.clone();
    if let Some(first) = verb.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    let confirm = Confirm {
        frame: ask.frame(format!("{verb} {those}?"), "/jobs"),
        question: format!("{first}{verb} {those} that match `{q}`?"),
        samples: samples.collect(),
        to: "/jobs/change".to_owned(),
        fields: vec![("action", action.clone()), ("q", q)],
        typed: (count.jobs > TYPED_FROM).then(|| typed(change, &count)),
        button: format!("{verb} them"),
        back: jobs(&change.q),
    };
    Ok(show(&confirm))
}
