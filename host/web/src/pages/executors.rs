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
use crate::format::{NAMES_SHOWN, shorten};
use crate::page::{Confirm, Frame, show, show_part};

/// The most that is shown of what a runner does and why, in bytes.
const TEXT_BYTES_MAX: usize = 300;

#[derive(Template)]
#[template(path = "executors.html")]
struct Page<'a> {
    frame: Frame,
    pools: &'a [PoolView],
}

pub(crate) async fn list(ask: Ask, Query(live): Query<Live>) -> Result<Response, Problem> {
    let mut pools: PageView<PoolView> = ask.get(path::RUNNERS, &ALL).await?;
    for runner in pools.items.iter_mut().flat_map(|pool| &mut pool.runners) {
        for text in [&mut runner.reason, &mut runner.doing]
            .into_iter()
            .flatten()
        {
            shorten(text, TEXT_BYTES_MAX);
        }
    }
    let frame = ask
        .frame("Executors", "/executors")
        .same_as("runner ls", path::RUNNERS)
        .live(&live.address("/executors"), live.is_on(), "");
    Ok(show_part(&pools.items, live.from, |pools, next| Page {
        frame: frame.followed_by("/executors", next),
        pools,
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
    let route = path::with_name(path::RUNNER_RESTART, &name);
    let _: Value = ask.post(&route, &query, &RestartBody::default()).await?;
    Ok(crate::see("/executors"))
}
