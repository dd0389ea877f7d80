//! The pools of foreign runners of all nodes: how each runner is, and restarting those of this host.

use axum::Json;
use axum::extract::{Request, State};
use host_api::node::NamedNode;
use host_api::page::PageView;
use host_api::path;
use host_api::runner::{NodeQuery, PoolView, RestartBody};
use host_core::id::NodeId;
use host_core::name::Name;
use host_engine::node::{NodeRecord, Pool};
use host_http::extract::{InPath, InQuery, small_body_or_default};
use host_wire_kit::executors::RestartError;

use super::actor::Actor;
use super::error::ApiError;
use super::problem::kinds;
use super::{Shared, nodes};

/// The pools of a node.
struct NodePools {
    /// The node, if others live.
    node: Option<NamedNode>,
    id: NodeId,
    pools: Vec<Pool>,
}

impl NodePools {
    fn has(&self, name: &Name) -> bool {
        self.pools.iter().any(|pool| pool.name == *name)
    }

    fn into_view(self, name: &Name) -> Option<PoolView> {
        let pool = self.pools.into_iter().find(|pool| pool.name == *name)?;
        Some(PoolView::new(pool, self.node))
    }
}

/// Returns the pools of all these nodes that live. This host is always among them.
fn list_pools(shared: &Shared, nodes: &[NodeRecord]) -> Vec<NodePools> {
    let own = shared.api.nodes.own();
    let mut living: Vec<NodeId> = nodes
        .iter()
        .filter(|node| !node.is_lost())
        .map(|node| node.id)
        .collect();
    if !living.contains(&own) {
        living.push(own);
    }
    let are_many = living.len() > 1;
    let had = |id: &NodeId| {
        let record = nodes.iter().find(|node| node.id == *id);
        let info = record.and_then(|node| node.info.as_ref());
        NodePools {
            node: are_many.then(|| NamedNode::find_in(nodes, *id)),
            id: *id,
            pools: match info {
                _ if *id == own => shared.api.executors.pools(),
                Some(info) => info.pools.clone(),
                None => Vec::new(),
            },
        }
    };
    living.iter().map(had).collect()
}

/// Lists the pools of foreign runners, those of all nodes that live. What other nodes have is as
/// they reported it with their last heartbeat.
#[utoipa::path(
    get, path = path::RUNNERS, tag = "runners",
    responses((status = 200, body = PageView<PoolView>))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
) -> Result<Json<PageView<PoolView>>, ApiError> {
    let nodes = shared.api.nodes.list().await?;
    let had = list_pools(&shared, &nodes).into_iter();
    let mut views: Vec<PoolView> = had
        .flat_map(|had| {
            let node = had.node;
            let pools = had.pools.into_iter();
            pools.map(move |pool| PoolView::new(pool, node.clone()))
        })
        .collect();
    views.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Json(PageView::whole(views)))
}

/// Shows one pool of foreign runners: that of this host if it has one of the name, else that of another node.
#[utoipa::path(
    get, path = path::RUNNER, tag = "runners",
    params(("name" = String, Path, description = "The pool's name"), NodeQuery),
    responses((status = 200, body = PoolView))
)]
pub(super) async fn show(
    State(shared): State<Shared>,
    InPath(name): InPath<Name>,
    InQuery(query): InQuery<NodeQuery>,
) -> Result<Json<PoolView>, ApiError> {
    let Some(node) = query.node else {
        return show_pool(&shared, &name).await.map(Json);
    };
    let nodes = shared.api.nodes.list().await?;
    let id = nodes::find(&nodes, &node)?;
    let had = list_pools(&shared, &nodes)
        .into_iter()
        .find(|had| had.id == id);
    let pool = had.and_then(|had| had.into_view(&name)).ok_or_else(|| {
        let called = NamedNode::find_in(&nodes, id);
        unknown(format!("no runner of the node {called} is named {name}"))
    })?;
    Ok(Json(pool))
}

/// Restarts the runners of a pool of this host, each once its attempts have ended; until then it takes no
/// others.
#[utoipa::path(
    post, path = path::RUNNER_RESTART, tag = "runners",
    params(("name" = String, Path, description = "The pool's name")),
    request_body = Option<RestartBody>,
    responses((status = 200, body = PoolView))
)]
pub(super) async fn restart(
    State(shared): State<Shared>,
    actor: Actor,
    InPath(name): InPath<Name>,
    request: Request,
) -> Result<Json<PoolView>, ApiError> {
    let RestartBody { runner } = small_body_or_default(&shared.api.bodies, request).await?;
    let pool = show_pool(&shared, &name).await?;
    if let Some(node) = &pool.node
        && !node.has_id(shared.api.nodes.own())
    {
        return Err(ApiError::invalid(format!(
            "{name} is a runner of the node {node}; ask that node to restart it"
        )));
    }
    let cannot = |error| match error {
        RestartError::NotOurs => ApiError::invalid(format!(
            "{name} is not started by this host; restart it where it runs"
        )),
        RestartError::NoSuchWorker => {
            ApiError::invalid(format!("runner: must be 1–{}", pool.runners.len()))
        }
    };
    if !pool.restartable {
        return Err(cannot(RestartError::NotOurs));
    }
    if runner.is_some_and(|runner| !(1..=pool.runners.len()).contains(&runner)) {
        return Err(cannot(RestartError::NoSuchWorker));
    }
    // No command restarts runners. No restart is without its entry.
    actor
        .record(&shared, format!("runner {name}"), "restart")
        .await?;
    let restarted = shared.api.executors.restart(&name, runner);
    restarted.map_err(cannot)?;
    show_pool(&shared, &name).await.map(Json)
}

/// Finds a pool, first among those of this host.
async fn show_pool(shared: &Shared, name: &Name) -> Result<PoolView, ApiError> {
    let own = shared.api.nodes.own();
    let has = |pools: &[Pool]| pools.iter().any(|pool| pool.name == *name);
    let nodes = match shared.api.nodes.list().await {
        Err(_) if has(&shared.api.executors.pools()) => Vec::new(),
        nodes => nodes?,
    };
    let mut having = list_pools(shared, &nodes);
    having.retain(|had| had.has(name));
    having.sort_by_key(|had| had.id != own);
    let first = having.into_iter().next();
    first
        .and_then(|had| had.into_view(name))
        .ok_or_else(|| unknown(format!("no runner is named {name}")))
}

fn unknown(detail: String) -> ApiError {
    ApiError::new(&kinds::RUNNER_NOT_FOUND, detail)
}
