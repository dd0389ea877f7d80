//! The batches of jobs: how many of their jobs have ended, and what became of their callbacks.

use askama::Template;
use axum::extract::{Path, Query};
use axum::response::Response;
use host_api::batch::{BatchView, BatchesQuery, CancelBatchBody};
use host_api::page::PageView;
use host_api::path;

use super::job::unknown_action;
use super::{ALL, Clicked};
use crate::ask::{Ask, Problem};
use crate::form::Form;
use crate::page::{Confirm, Frame, show as show_page};
use crate::same::{Command, with_query};

/// How many batches a page has.
const BATCHES_SHOWN: u32 = 100;

#[derive(Template)]
#[template(path = "batches.html")]
struct List {
    frame: Frame,
    batches: Vec<BatchView>,
    next: Option<String>,
}

pub(crate) async fn list(ask: Ask, Query(asked): Query<BatchesQuery>) -> Result<Response, Problem> {
    let asked = BatchesQuery {
        limit: Some(BATCHES_SHOWN),
        ..asked
    };
    let batches: PageView<BatchView> = ask.get(path::BATCHES, &asked).await?;
    let next = batches.next_cursor.map(|cursor| {
        let cursor = serde_urlencoded::to_string([("cursor", cursor)]);
        format!("/batches?{}", cursor.unwrap_or_default())
    });
    Ok(show_page(&List {
        frame: ask
            .frame("Batches", "/batches")
            .same_as("batch ls", with_query(path::BATCHES, &asked)),
        batches: batches.items,
        next,
    }))
}

#[derive(Template)]
#[template(path = "batch.html")]
struct Detail {
    frame: Frame,
    batch: BatchView,
}

impl Detail {
    /// Returns the address of its jobs, or of those in a state.
    fn jobs(&self, state: Option<&str>) -> String {
        let state = state.map(|state| format!(" state:{state}"));
        let filter = format!("batch:{}{}", self.batch.id, state.unwrap_or_default());
        crate::filter::jobs(filter)
    }
}

pub(crate) async fn show(ask: Ask, Path(id): Path<String>) -> Result<Response, Problem> {
    let batch: BatchView = ask.get(&path::with_name(path::BATCH, &id), &ALL).await?;
    let frame = ask.frame("Batch", "/batches").same_as(
        Command::new("batch show").name(&batch.id),
        path::with_name(path::BATCH, &batch.id),
    );
    Ok(show_page(&Detail { frame, batch }))
}

/// Cancels a batch, after a question.
pub(crate) async fn act(
    ask: Ask,
    Path(id): Path<String>,
    Form(asked): Form<Clicked>,
) -> Result<Response, Problem> {
    if asked.action != "cancel" {
        return Err(unknown_action());
    }
    let here = format!("/batches/{}", path::segment(&id));
    if !asked.sure {
        return Ok(show_page(&Confirm {
            frame: ask.frame("Cancel the batch?", "/batches"),
            question: format!(
                "Cancel the batch {id}? Its jobs are cancelled, also those that run."
            ),
            samples: Vec::new(),
            to: here.clone(),
            fields: vec![("action", asked.action)],
            typed: None,
            button: "Cancel".to_owned(),
            back: here,
        }));
    }
    let body = CancelBatchBody::default();
    let _: BatchView = ask
        .post(&path::with_name(path::BATCH_CANCEL, &id), &ALL, &body)
        .await?;
    Ok(crate::see(&here))
}
