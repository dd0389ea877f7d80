//! The audit: who changed what, page by page.

use askama::Template;
use axum::extract::Query;
use axum::response::Response;
use host_api::audit::{AuditQuery, EntryView, RecordView};
use host_api::page::PageView;
use host_api::path;

use crate::ask::{Ask, Problem};
use crate::format::shorten;
use crate::page::{Frame, show};
use crate::same::{Command, with_query};

/// How many entries a page has.
const ENTRIES_SHOWN: u32 = 60;

/// The most that is shown of each text of an entry, in bytes.
const TEXT_BYTES_MAX: usize = 200;

#[derive(Template)]
#[template(path = "audit.html")]
struct Page {
    frame: Frame,
    principal: String,
    verb: String,
    entries: Vec<(u64, RecordView)>,
    next: Option<String>,
}

pub(crate) async fn list(ask: Ask, Query(query): Query<AuditQuery>) -> Result<Response, Problem> {
    // What is not asked for may be there as an empty field of the form.
    let some = |text: Option<String>| text.filter(|text| !text.is_empty());
    let query = AuditQuery {
        principal: some(query.principal),
        verb: some(query.verb),
        since: some(query.since),
        limit: Some(ENTRIES_SHOWN),
        ..query
    };
    let page: PageView<EntryView> = ask.get(path::AUDIT, &query).await?;
    let is_full = page.items.len() >= ENTRIES_SHOWN as usize;
    let next = page.next_cursor.filter(|_| is_full).map(|cursor| {
        let next_query = AuditQuery {
            since: query.since.clone(),
            principal: query.principal.clone(),
            verb: query.verb.clone(),
            limit: None,
            cursor: Some(cursor),
        };
        let next = serde_urlencoded::to_string(&next_query).unwrap_or_default();
        format!("/audit?{next}")
    });
    let entries = page.items.iter();
    let options = [
        ("--since", &query.since),
        ("--principal", &query.principal),
        ("--verb", &query.verb),
    ];
    let command = options
        .iter()
        .fold(Command::new("audit ls"), |options, (option, value)| {
            options.option(option, value.as_deref().unwrap_or_default())
        });
    Ok(show(&Page {
        frame: ask
            .frame("Audit", "/audit")
            .same_as(command, with_query(path::AUDIT, &query)),
        principal: query.principal.unwrap_or_default(),
        verb: query.verb.unwrap_or_default(),
        entries: entries
            .map(|entry| (entry.number, record_view(entry)))
            .collect(),
        next,
    }))
}

fn record_view(entry: &EntryView) -> RecordView {
    let mut record = entry.record().unwrap_or_default();
    let texts = [
        &mut record.principal,
        &mut record.object,
        &mut record.outcome,
    ];
    let more = [
        &mut record.token_name,
        &mut record.address,
        &mut record.detail,
    ];
    for text in texts.into_iter().chain(more.into_iter().flatten()) {
        shorten(text, TEXT_BYTES_MAX);
    }
    record
}
