//! The executors of all wires: who is connected and what they do.

use askama::Template;
use axum::extract::{Path, Query};
use axum::response::Response;
use host_api::page::PageView;
use host_api::path;
use host_api::runner::{PoolView, RestartBody};
use serde_json::Value;

use super::job::unknown_action;
use super::{ALL, Clicked, Live};
use crate::ask::{Ask, Problem};
use crate::form::Form;
use crate::page::{Confirm, Frame, show};

#[derive(Template)]
#[template(path = "executors.html")]
struct Page {
    frame: Frame,
    pools: Vec<PoolView>,
}

pub(crate) async fn list(ask: Ask, Query(live): Query<Live>) -> Result<Response, Problem> {
    let pools: PageView<PoolView> = ask.get(path::RUNNERS, &ALL).await?;
    let frame = ask
        .frame("Executors", "/executors")
        .same_as("runner ls", path::RUNNERS);
    Ok(show(&Page {
        frame: frame.live("/executors", live.is_on(), ""),
        pools: pools.items,
    }))
}

/// Restarts a pool, after a question.
pub(crate) async fn act(
    ask: Ask,
    Path(name): Path<String>,
    Form(asked): Form<Clicked>,
) -> Result<Response, Problem> {
    if asked.action != "restart" {
        return Err(unknown_action());
    }
    if !asked.sure {
        return Ok(show(&Confirm {
            frame: ask.frame(format!("Restart {name}?"), "/executors"),
            question: format!("Restart the runners of {name}? Each finishes its jobs first."),
            samples: Vec::new(),
            to: format!("/executors/{}", path::segment(&name)),
            fields: vec![("action", asked.action), ("value", asked.value)],
            typed: None,
            button: "Restart them".to_owned(),
            back: "/executors".to_owned(),
        }));
    }
    let node = Some(asked.value).filter(|node| !node.is_empty());
    let query: Vec<_> = node.iter().map(|node| ("node", node)).collect();
    let route = path::of(path::RUNNER_RESTART, &name);
    let _pool: Value = ask.post(&route, &query, &RestartBody::default()).await?;
    Ok(crate::see("/executors"))
}
