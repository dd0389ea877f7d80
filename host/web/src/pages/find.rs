//! The search box: a filter, an id or its beginning, a unique key, or a name.

use askama::Template;
use axum::extract::Query;
use axum::response::{IntoResponse as _, Redirect, Response};
use host_api::component::RevisionView;
use host_api::filter::FilterQuery;
use host_api::filter_text::{self, Filter, KEYS};
use host_api::handler::HandlerView;
use host_api::job::JobView;
use host_api::page::PageView;
use host_api::path;
use host_core::id::start_of_id;
use serde::Deserialize;

use super::ALL;
use crate::ask::{Ask, Problem};
use crate::filter::jobs;
use crate::page::{Frame, Verb, show};
use crate::same::{Command, with_query};

/// How many of each kind are shown.
const SHOWN_MAX: usize = 10;

#[derive(Template)]
#[template(path = "find.html")]
struct Page {
    frame: Frame,
    /// The jobs that mention it.
    mentions: String,
    q: String,
    found: Vec<NameMatch>,
    keys: &'static str,
}

/// Something that has the name, and its page.
struct NameMatch {
    what: &'static str,
    name: String,
    page: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Words {
    q: String,
}

pub(crate) async fn find(ask: Ask, Query(words): Query<Words>) -> Result<Response, Problem> {
    let q = words.q.trim().to_owned();
    let is_filter = q.contains([':', ' ', '"']) && filter_text::parse(&q, ask.now).is_ok();
    if is_filter {
        return Ok(Redirect::to(&jobs(q)).into_response());
    }
    let found = if q.is_empty() {
        Vec::new()
    } else {
        find_matches(&ask, &q).await?
    };
    if let [only] = &found[..] {
        return Ok(Redirect::to(&only.page).into_response());
    }
    let mut frame = ask.frame("Find", "");
    let words = mentions(&ask, &q);
    if let Some(words) = &words {
        frame = frame.same_as(
            Command::new("job ls").option("--filter", words),
            with_query(path::JOBS, &[("q", words)]),
        );
    }
    Ok(show(&Page {
        frame,
        mentions: words.map(jobs).unwrap_or_default(),
        q,
        found,
        keys: KEYS,
    }))
}

/// Returns the filter of the jobs that mention a text, if the caller may read payloads.
fn mentions(ask: &Ask, q: &str) -> Option<String> {
    let words = Filter {
        words: vec![q.to_owned()],
        ..Filter::default()
    };
    let may = !q.is_empty() && ask.may(Verb::ReadPayload);
    may.then(|| filter_text::write(&words))
}

async fn find_matches(ask: &Ask, q: &str) -> Result<Vec<NameMatch>, Problem> {
    let mut found = Vec::new();
    let some = |what, name: &str, page: String| NameMatch {
        what,
        name: name.to_owned(),
        page,
    };
    let job = |job: JobView| {
        let name = format!("{} {}", job.handler, job.id);
        some("Job", &name, format!("/jobs/{}", job.id))
    };
    let by_key = FilterQuery {
        unique_key: Some(q.to_owned()),
        limit: Some(10),
        ..FilterQuery::default()
    };
    let by_id = FilterQuery {
        id: start_of_id(q),
        limit: Some(10),
        ..FilterQuery::default()
    };
    let is_start = by_id.id.is_some();
    for query in [Some(by_key), Some(by_id).filter(|_| is_start)]
        .into_iter()
        .flatten()
    {
        let page: PageView<JobView> = ask.get(path::JOBS, &query).await?;
        found.extend(page.items.into_iter().map(job));
    }
    let has = |name: &str| name.to_ascii_lowercase().contains(&q.to_ascii_lowercase());
    let handlers: PageView<HandlerView> = ask.get(path::HANDLERS, &ALL).await?;
    let names = handlers.items.iter().map(|it| it.name.as_str());
    let page = |name: &str| format!("/handlers/{}", path::segment(name));
    found.extend(
        names
            .filter(|name| has(name))
            .take(SHOWN_MAX)
            .map(|name| some("Handler", name, page(name))),
    );
    let queues = ask.queues().await?;
    let names = queues.iter().map(|it| it.name.as_str());
    let page = |name: &str| jobs(format!("queue:{name}"));
    found.extend(
        names
            .filter(|name| has(name))
            .take(SHOWN_MAX)
            .map(|name| some("Queue", name, page(name))),
    );
    // Callers that may not see components find none.
    let page: Result<PageView<RevisionView>, Problem> = ask.get(path::COMPONENTS, &ALL).await;
    let components = page.map(|page| page.items).unwrap_or_default();
    let names = components.iter().map(|it| it.component.as_str());
    let page = |name: &str| format!("/components/{}", path::segment(name));
    found.extend(
        names
            .filter(|name| has(name))
            .take(SHOWN_MAX)
            .map(|name| some("Component", name, page(name))),
    );
    let by_failure = FilterQuery {
        failure: Some(q.to_owned()),
        limit: Some(1),
        ..FilterQuery::default()
    };
    let failed: Result<PageView<JobView>, Problem> = ask.get(path::JOBS, &by_failure).await;
    if failed.is_ok_and(|page| !page.items.is_empty()) {
        let page = filter_text::write(&Filter {
            failure: by_failure.failure,
            ..Filter::default()
        });
        found.push(some("Jobs that failed with", q, jobs(page)));
    }
    Ok(found)
}
