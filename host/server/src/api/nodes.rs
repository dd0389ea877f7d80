//! The nodes that share the store: their state, and draining one.

use axum::Json;
use axum::extract::State;
use host_api::node::{AskedView, NodeView};
use host_api::page::PageView;
use host_api::path;
use host_core::id::NodeId;
use host_engine::node::{NodeRecord, Standing};
use host_http::extract::TextInPath;

use super::Shared;
use super::actor::Actor;
use super::error::ApiError;
use super::problem::kinds;

/// How many characters of an unknown name are repeated.
const SHOWN_CHARS: usize = 64;

/// Lists the nodes that share the store, also those that have gone in the last day.
#[utoipa::path(
    get, path = path::NODES, tag = "nodes",
    responses((status = 200, body = PageView<NodeView>))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
) -> Result<Json<PageView<NodeView>>, ApiError> {
    let nodes = shared.api.nodes.list().await?.into_iter();
    let items = nodes.map(|node| NodeView::new(node, shared.api.nodes.own()));
    Ok(Json(PageView::whole(items.collect())))
}

/// Shows one node.
#[utoipa::path(
    get, path = path::NODE, tag = "nodes",
    params(("id" = String, Path, description = "The node's id, the start of it, or the name of its machine")),
    responses((status = 200, body = NodeView))
)]
pub(super) async fn show(
    State(shared): State<Shared>,
    TextInPath(text): TextInPath,
) -> Result<Json<NodeView>, ApiError> {
    let nodes = shared.api.nodes.list().await?;
    let id = find(&nodes, &text)?;
    view(&shared, nodes, id).map(Json)
}

/// Lets a node start no more jobs. What runs there may end; other nodes run the rest. It stays so when the
/// node starts again.
#[utoipa::path(
    post, path = path::NODE_DRAIN, tag = "nodes",
    params(("id" = String, Path, description = "The node's id, the start of it, or the name of its machine")),
    responses((status = 200, body = AskedView))
)]
pub(super) async fn drain(
    State(shared): State<Shared>,
    actor: Actor,
    TextInPath(text): TextInPath,
) -> Result<Json<AskedView>, ApiError> {
    ask(&shared, &actor, &text, true).await
}

/// Lets a node start jobs again.
#[utoipa::path(
    post, path = path::NODE_RESUME, tag = "nodes",
    params(("id" = String, Path, description = "The node's id, the start of it, or the name of its machine")),
    responses((status = 200, body = AskedView))
)]
pub(super) async fn resume(
    State(shared): State<Shared>,
    actor: Actor,
    TextInPath(text): TextInPath,
) -> Result<Json<AskedView>, ApiError> {
    ask(&shared, &actor, &text, false).await
}

async fn ask(
    shared: &Shared,
    actor: &Actor,
    text: &str,
    drain: bool,
) -> Result<Json<AskedView>, ApiError> {
    let nodes = shared.api.nodes.list().await?;
    let id = find(&nodes, text)?;
    if let Some(node) = nodes
        .iter()
        .find(|node| node.id == id && drain && node.is_lost())
    {
        let age = node.silent_ms / 1_000;
        let detail = format!(
            "the node {id} has sent no heartbeat for {age} s; other nodes take over its jobs"
        );
        return Err(ApiError::new(&kinds::NODE_GONE, detail));
    }
    // The row of a node is not changed by commands. No change is without its entry.
    let detail = if drain { "drain" } else { "resume" };
    actor.record(shared, format!("node {id}"), detail).await?;
    shared.api.nodes.set_drain(id, drain).await?;
    let nodes = shared.api.nodes.list().await?;
    let lives = |node: &&NodeRecord| node.id != id && node.standing() == Standing::Live;
    let others_live = nodes.iter().filter(lives).count();
    let node = view(shared, nodes, id)?;
    let waiting = (drain && others_live == 0).then_some(
        "no other node starts jobs: they wait until one does, or until this one is resumed",
    );
    Ok(Json(AskedView {
        node,
        others_live,
        note: waiting.map(str::to_owned),
    }))
}

fn view(shared: &Shared, nodes: Vec<NodeRecord>, id: NodeId) -> Result<NodeView, ApiError> {
    let node = nodes
        .into_iter()
        .find(|node| node.id == id)
        .ok_or_else(|| unknown(&id.to_string()))?;
    Ok(NodeView::new(node, shared.api.nodes.own()))
}

/// Returns the one node with this name or start of an id. A node that has gone has its name only as
/// long as no other has it.
pub(super) fn find(nodes: &[NodeRecord], text: &str) -> Result<NodeId, ApiError> {
    let start = text.to_ascii_lowercase();
    let is_gone = |node: &NodeRecord| node.standing() == Standing::Gone;
    let has_name = |node: &NodeRecord| node.info.as_ref().is_some_and(|info| info.name == text);
    let is_taken = nodes.iter().any(|node| has_name(node) && !is_gone(node));
    let is_meant = |node: &&NodeRecord| {
        let is_named = has_name(node) && !(is_taken && is_gone(node));
        !start.is_empty() && (is_named || node.id.to_string().starts_with(&start))
    };
    let meant: Vec<NodeId> = nodes.iter().filter(is_meant).map(|node| node.id).collect();
    match meant.as_slice() {
        [] => Err(unknown(text)),
        [id] => Ok(*id),
        [one, other, ..] => Err(ApiError::new(
            &kinds::AMBIGUOUS_ID,
            format!("ambiguous id or name: it matches {one}, {other} and possibly more"),
        )),
    }
}

fn unknown(text: &str) -> ApiError {
    let shown: String = text.chars().take(SHOWN_CHARS).collect();
    let detail = format!("no node has the name or the id {shown:?}");
    ApiError::new(&kinds::NODE_NOT_FOUND, detail)
}
