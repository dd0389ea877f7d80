//! Why a job that may start does not, if no node can run it now.

use std::fmt::Write as _;

use host_core::job::{Lifecycle, State};
use host_core::name::Name;
use host_core::node::{Known, Readiness, Standing};

use super::Shared;
use super::error::ApiError;

/// How many nodes a reason names.
const NODES_SHOWN: usize = 3;

/// Returns why an available job does not start; `None` if a node can run it as soon as it has room.
pub(super) async fn reason(shared: &Shared, job: &Lifecycle) -> Result<Option<String>, ApiError> {
    let api = &shared.api;
    let presence = &api.dispatch.shared().presence;
    let runs_here = !presence.is_asked_to_drain() && presence.can_run(&job.handler);
    if job.state != State::Available || job.runner.is_some() || runs_here {
        return Ok(None);
    }
    // One that is not deployed fails soon.
    let Some(handler) = api.handlers.get(&job.handler) else {
        return Ok(None);
    };
    let mut nodes = api.nodes.list().await?;
    nodes.retain(|node| !node.is_lost());
    let revision = &handler.revision;
    Ok(missing(&revision.component, revision.revision, &nodes))
}

/// Says why none of these nodes starts jobs of a revision of a component.
fn missing(component: &Name, revision: u32, nodes: &[Known]) -> Option<String> {
    let is_ready = |node: &&Known| node.readiness(component, revision) == Readiness::Ready;
    let able: Vec<&Known> = nodes.iter().filter(is_ready).collect();
    let starts = |node: &&Known| matches!(node.standing(), Standing::Live | Standing::Silent);
    if able.iter().any(starts) {
        return None;
    }
    if !able.is_empty() {
        return Some(format!(
            "the nodes that can run it start no more jobs until `host node resume`: {}",
            listed(&able, |_| None)
        ));
    }
    let all: Vec<&Known> = nodes.iter().collect();
    let reasons = listed(&all, |node| match node.readiness(component, revision) {
        Readiness::Failed(reason) => Some(reason),
        Readiness::Compiling => Some("it has yet to compile it"),
        Readiness::Ready => None,
    });
    Some(format!(
        "no node can run revision {revision} of the component {component}: {reasons}"
    ))
}

/// Names the first nodes, each with what is said of it.
fn listed<'a>(nodes: &[&'a Known], of: impl Fn(&'a Known) -> Option<&'a str>) -> String {
    let mut text = String::new();
    for (n, node) in nodes.iter().take(NODES_SHOWN).enumerate() {
        let between = if n == 0 { "" } else { "; " };
        let name = node.card.as_ref().map(|card| card.name.as_str());
        let _infallible = match name.filter(|name| !name.is_empty()) {
            Some(name) => write!(text, "{between}{name}"),
            None => write!(text, "{between}{}", node.id),
        };
        if let Some(said) = of(node) {
            let _infallible = write!(text, ": {said}");
        }
    }
    let more = nodes.len().saturating_sub(NODES_SHOWN);
    if more > 0 {
        let _infallible = write!(text, "; and {more} more");
    }
    text
}
