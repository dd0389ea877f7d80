//! The nodes that share the store: draining and resuming.

use askama::Template;
use axum::extract::{Path, Query};
use axum::response::Response;
use host_api::node::NodeView;
use host_api::page::PageView;
use host_api::path;
use serde_json::{Value, json};

use super::job::unknown_action;
use super::{ALL, Clicked, Live};
use crate::ask::{Ask, Problem};
use crate::form::Form;
use crate::page::{Confirm, Frame, show, show_part};

#[derive(Template)]
#[template(path = "nodes.html")]
struct Page<'a> {
    frame: Frame,
    nodes: &'a [NodeView],
}

pub(crate) async fn list(ask: Ask, Query(live): Query<Live>) -> Result<Response, Problem> {
    let nodes: PageView<NodeView> = ask.get(path::NODES, &ALL).await?;
    let frame = ask
        .frame("Nodes", "/nodes")
        .same_as("node ls", path::NODES)
        .live(&live.address("/nodes"), live.is_on(), "");
    Ok(show_part(&nodes.items, live.from, |nodes, next| Page {
        frame: frame.followed_by("/nodes", next),
        nodes,
    }))
}

/// Drains a node, after a question, or resumes it.
pub(crate) async fn act(
    ask: Ask,
    Path(id): Path<String>,
    Form(asked): Form<Clicked>,
) -> Result<Response, Problem> {
    let route = match asked.action.as_str() {
        "drain" if !asked.sure => {
            return Ok(show(&Confirm {
                frame: ask.frame("Drain this node?", "/nodes"),
                question: format!("Let node {id} start no more jobs? Running ones continue."),
                samples: Vec::new(),
                to: format!("/nodes/{}", path::segment(&id)),
                fields: vec![("action", asked.action)],
                typed: None,
                button: "Drain it".to_owned(),
                back: "/nodes".to_owned(),
            }));
        }
        "drain" => path::NODE_DRAIN,
        "resume" => path::NODE_RESUME,
        _ => return Err(unknown_action()),
    };
    let _: Value = ask
        .post(&path::with_name(route, &id), &ALL, &json!({}))
        .await?;
    Ok(crate::see("/nodes"))
}
