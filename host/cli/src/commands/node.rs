//! `host node`: the hosts that share a store: how they are, and letting one start no more jobs.

mod drain;

use std::time::Duration;

use clap::{Args, Subcommand};
use host_api::client::Item;
use host_api::node::{NamedNode, NodeView, RunningView};
use host_console::error::{CliError, cannot, cannot_find};
use host_console::options::Remote;
use host_console::table::{Cell, Column, Rows};
use host_console::{human, plain};

use crate::complete;

/// List, show, drain and resume the nodes that share a store.
#[derive(Debug, Args)]
pub(crate) struct Node {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the nodes, including those that have gone within the last day
    #[command(after_help = "Example:\n  host node ls -o json")]
    Ls(Remote),
    /// Show one node: its version, its cells, and what it runs
    #[command(after_help = "Examples:\n  host node show 0199a0b0\n  host node show db-worker-3")]
    Show(NodeArgs),
    /// Drain a node: it starts no more jobs, its running jobs end, other nodes run the rest
    Drain(drain::Drain),
    /// Resume a node: it starts jobs again
    #[command(after_help = "Example:\n  host node resume 0199a0b0")]
    Resume(NodeArgs),
}

#[derive(Debug, Args)]
struct NodeArgs {
    /// The node's id or a prefix of it, or the name of its machine
    #[arg(add = complete::nodes())]
    id: String,
    #[command(flatten)]
    remote: Remote,
}

/// Returns the name of a node if no other of `nodes` has it, else its id.
pub(super) fn name_among(node: &NamedNode, nodes: &[&NamedNode]) -> String {
    let is_other = |other: &&NamedNode| other.name == node.name && other.id != node.id;
    let name = node.name.as_ref().filter(|_| !nodes.iter().any(is_other));
    plain::line(name.unwrap_or(&node.id)).into_owned()
}

/// Returns the name of a node, if it is known, and its id.
pub(super) fn line(node: &NamedNode) -> String {
    plain::line(&node.to_string()).into_owned()
}

/// The hint for an unknown node.
const LISTED: &str = "`host node ls` lists the nodes";

impl Node {
    /// Runs the verb.
    pub(crate) fn run(self) -> Result<(), CliError> {
        match self.verb {
            Verb::Ls(remote) => ls(&remote),
            Verb::Show(named) => show(&named),
            Verb::Drain(drain) => drain.run(),
            Verb::Resume(named) => drain::resume(&named),
        }
    }
}

fn ls(remote: &Remote) -> Result<(), CliError> {
    let (client, output) = remote.open()?;
    let nodes = client.nodes().map_err(cannot("list nodes"))?.items;
    output.list(&nodes, |node| &node.id, || table(&nodes))?;
    let stuck = |node: &&NodeView| node.state == "silent";
    output.hint(&match nodes.iter().map(|node| &node.view).find(stuck) {
        Some(node) => format!(
            "{} has stopped sending heartbeats; after 10 s other nodes take over its jobs",
            display_name(node)
        ),
        None => "`host node show ID` shows what one runs".to_owned(),
    });
    Ok(())
}

fn table(nodes: &[Item<NodeView>]) -> Rows {
    let mut rows = Rows::new(&[
        Column::Left("ID"),
        Column::Left("NAME"),
        Column::Left("STATE"),
        Column::Right("RUNNING"),
        Column::Right("CELLS"),
        Column::Left("VERSION"),
        Column::Left("ADDRESS"),
        Column::Right("HEARTBEAT"),
    ]);
    for Item { view: node, .. } in nodes {
        let or_none = |text: Option<&str>| plain::line(text.unwrap_or("-")).into_owned();
        let here = if node.answers { " (answers)" } else { "" };
        rows.row(vec![
            Cell::new(plain::line(&node.id)),
            Cell::new(or_none(node.name.as_deref())),
            Cell::new(format!("{}{here}", plain::line(&node.state))),
            Cell::new(human::count(node.running.all)),
            Cell::new(node.cells.map_or("-".to_owned(), |cells| cells.to_string())),
            Cell::new(plain::line(&node.version)),
            Cell::new(or_none(node.address.as_deref())),
            Cell::new(age(node)),
        ]);
    }
    rows
}

/// Returns the age of a node's last heartbeat.
fn age(node: &NodeView) -> String {
    let age = Duration::try_from_secs_f64(node.heartbeat_age_seconds).unwrap_or_default();
    let ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    format!("{} ago", human::took(ms))
}

/// Returns what people call a node.
fn display_name(node: &NodeView) -> String {
    let name = node.name.as_deref().unwrap_or(&node.id);
    plain::line(name).into_owned()
}

fn show(named: &NodeArgs) -> Result<(), CliError> {
    let (client, output) = named.remote.open()?;
    let doing = format!("show node {}", plain::line(&named.id));
    let answer = client
        .node(&named.id)
        .map_err(cannot_find(&doing, LISTED))?;
    let node = &answer.view;
    output.print_item(&answer.json, &plain::line(&node.id), || {
        output.rows(facts(node, answer.now))
    })?;
    let id = plain::line(&node.id);
    match node.state.as_str() {
        "live" => output.hint(&format!(
            "`host node drain {id}` stops it from starting jobs"
        )),
        "draining" | "drained" => {
            output.hint(&format!("`host node resume {id}` lets it start jobs again"));
        }
        _ => {}
    }
    Ok(())
}

fn facts(node: &NodeView, now: Option<host_core::time::Time>) -> Rows {
    let mut rows = Rows::pairs();
    let mut pair = |key: &str, value: &str| rows.pair(key, &plain::line(value));
    pair("id", &node.id);
    if let Some(name) = &node.name {
        pair("name", name);
    }
    pair("state", &node.state);
    pair("heartbeat", &age(node));
    pair("version", &node.version);
    if let Some(at) = &node.started_at {
        pair("started", &human::instant(now, at));
    }
    if let Some(address) = &node.address {
        pair("address", address);
    }
    if let Some((cells, slots)) = node.cells.zip(node.slots) {
        pair(
            "cells",
            &format!("{cells}, each with room for {slots} jobs"),
        );
    }
    if !node.wires.is_empty() {
        pair("wires", &node.wires.join(" "));
    }
    if !node.runners.is_empty() {
        pair("runners", &node.runners.join(" "));
    }
    pair("running", &running(&node.running));
    rows
}

/// Says how many attempts run, and where.
fn running(running: &RunningView) -> String {
    let mut parts = Vec::new();
    if running.cells > 0 {
        parts.push(format!("{} in cells", human::count(running.cells)));
    }
    let runners = running.runners.iter();
    parts.extend(runners.map(|(name, runs)| format!("{} at {name}", human::count(*runs))));
    match parts.len() {
        0 => "0".to_owned(),
        _ => parts.join(", "),
    }
}
