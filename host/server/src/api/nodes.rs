//! The nodes that share the store: how each is, and letting one start no more jobs.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use host_api::seconds;
use host_core::id::NodeId;
use host_core::node::{NodeRecord, Running, Standing};
use host_core::time::Time;
use host_http::extract::TextInPath;
use host_http::query::PageView;
use serde::Serialize;
use utoipa::ToSchema;

use super::Shared;
use super::error::ApiError;
use super::problem::kinds;

/// How many characters of a name that nobody has are repeated.
const SHOWN_CHARS: usize = 64;

/// A node: one host of those that share the store.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Node)]
pub(super) struct NodeView {
    /// Its id, which stays the same when it starts again.
    id: String,
    /// The name of its machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// live, draining, drained, silent or gone.
    state: &'static str,
    /// Whether it is the one that answers.
    answers: bool,
    /// The version of the host.
    version: String,
    /// When it started (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    /// Where its API listens.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    /// How long ago it said that it lives.
    heartbeat_age_seconds: f64,
    /// How many cells it keeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    cells: Option<u32>,
    /// How many jobs each of them runs at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    slots: Option<u32>,
    /// The wires that it is configured for.
    wires: Vec<String>,
    /// The foreign runners that it is configured for.
    runners: Vec<String>,
    /// What it runs.
    running: RunningView,
}

/// How many attempts a node runs. Those whose workers hold a lease by heartbeats may go on at any node, and
/// are not counted.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = NodeRunning)]
pub(super) struct RunningView {
    /// All of them.
    all: u64,
    /// In its cells.
    cells: u64,
    /// At foreign runners, by pool.
    runners: BTreeMap<String, u64>,
}

impl From<Running> for RunningView {
    fn from(running: Running) -> Self {
        let runners = running.runners.iter();
        Self {
            all: running.all(),
            cells: running.cells,
            runners: runners
                .map(|(name, runs)| (name.to_string(), *runs))
                .collect(),
        }
    }
}

/// A node that was asked to start no more jobs, or to start some again.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AskedNode)]
pub(super) struct AskedView {
    #[serde(flatten)]
    node: NodeView,
    /// How many other nodes start jobs.
    others_live: usize,
    /// What that means for waiting jobs, if no node starts any.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

impl NodeView {
    fn new(shared: &Shared, node: NodeRecord) -> Self {
        let standing = node.standing();
        let info = node.info.unwrap_or_default();
        let is_known = info.started_at > Time::default();
        Self {
            id: node.id.to_string(),
            state: standing.as_str(),
            answers: node.id == shared.api.nodes.own(),
            version: node.version,
            name: Some(info.name).filter(|name| !name.is_empty()),
            started_at: is_known.then(|| info.started_at.to_rfc3339()),
            address: info.address,
            heartbeat_age_seconds: seconds(node.silent_ms),
            cells: is_known.then_some(info.cells),
            slots: is_known.then_some(info.slots),
            wires: info.wires,
            runners: info.runners.into_iter().map(String::from).collect(),
            running: match standing {
                Standing::Gone => RunningView::default(),
                _ => info.running.into(),
            },
        }
    }
}

/// Lists the nodes that share the store, also those that have gone in the last day.
#[utoipa::path(
    get, path = "/api/v1/nodes", tag = "nodes",
    responses((status = 200, body = PageView<NodeView>))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
) -> Result<Json<PageView<NodeView>>, ApiError> {
    let nodes = shared.api.nodes.list().await?.into_iter();
    let items = nodes.map(|node| NodeView::new(&shared, node));
    Ok(Json(PageView::all(items.collect())))
}

/// Shows one node.
#[utoipa::path(
    get, path = "/api/v1/nodes/{id}", tag = "nodes",
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
    post, path = "/api/v1/nodes/{id}/drain", tag = "nodes",
    params(("id" = String, Path, description = "The node's id, the start of it, or the name of its machine")),
    responses((status = 200, body = AskedView))
)]
pub(super) async fn drain(
    State(shared): State<Shared>,
    TextInPath(text): TextInPath,
) -> Result<Json<AskedView>, ApiError> {
    ask(&shared, &text, true).await
}

/// Lets a node start jobs again.
#[utoipa::path(
    post, path = "/api/v1/nodes/{id}/resume", tag = "nodes",
    params(("id" = String, Path, description = "The node's id, the start of it, or the name of its machine")),
    responses((status = 200, body = AskedView))
)]
pub(super) async fn resume(
    State(shared): State<Shared>,
    TextInPath(text): TextInPath,
) -> Result<Json<AskedView>, ApiError> {
    ask(&shared, &text, false).await
}

async fn ask(shared: &Shared, text: &str, drain: bool) -> Result<Json<AskedView>, ApiError> {
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
        note: waiting,
    }))
}

fn view(shared: &Shared, nodes: Vec<NodeRecord>, id: NodeId) -> Result<NodeView, ApiError> {
    let node = nodes.into_iter().find(|node| node.id == id);
    let node = node.ok_or_else(|| unknown(&id.to_string()))?;
    Ok(NodeView::new(shared, node))
}

/// Returns the one node that is named so, or whose id starts so. A node that has gone has its name only as
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
            format!("ambiguous id or name: it matches {one}, {other} and perhaps more"),
        )),
    }
}

fn unknown(text: &str) -> ApiError {
    let shown: String = text.chars().take(SHOWN_CHARS).collect();
    let detail = format!("no node has the name or the id {shown:?}");
    ApiError::new(&kinds::NODE_NOT_FOUND, detail)
}
