//! `host component`: what its verbs share: the component as the API shows it and the error for an
//! unknown one.

mod ls;
mod rm;
mod rollback;
mod show;
pub(super) mod waiting;

use std::time::Duration;

use clap::{Args, Subcommand};
use host_console::client::{Answer, Client, segment};
use host_console::error::{CliError, Exit};
use host_console::options::Remote;
use host_console::output::{Output, put_section};
use host_console::{human, plain};
use host_core::handler::Manifest;
use serde::Deserialize;

/// List, show, roll back and remove deployed components.
#[derive(Debug, Args)]
pub(crate) struct Component {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the deployed components
    #[command(after_help = "Example:\n  host component ls -o json")]
    Ls(Remote),
    /// Show the revisions of a component and the manifest of the current one
    #[command(after_help = "\
Examples:
  host component show basics
  host component show basics -o json | jq .revisions")]
    Show(Named),
    /// Go back to an earlier revision; running attempts keep the one they started with
    Rollback(rollback::Rollback),
    /// Remove a component and its handlers; refused while it has unfinished jobs
    #[command(after_help = "Example:\n  host component rm basics")]
    Rm(Named),
}

#[derive(Debug, Args)]
struct Named {
    /// The component's name
    name: String,
    #[command(flatten)]
    remote: Remote,
}

impl Component {
    /// Runs the verb.
    pub(crate) fn run(self) -> Result<(), CliError> {
        match self.verb {
            Verb::Ls(remote) => ls::run(&remote),
            Verb::Show(named) => show::run(&named),
            Verb::Rollback(rollback) => rollback.run(),
            Verb::Rm(named) => rm::run(&named),
        }
    }
}

/// A component with its history, as the API shows it.
#[derive(Debug, Deserialize)]
struct View {
    component: String,
    current: u32,
    #[serde(default)]
    revisions: Vec<RevisionView>,
    #[serde(default)]
    nodes: Vec<NodeView>,
}

/// Whether a node can run the current revision.
#[derive(Debug, Deserialize)]
struct NodeView {
    id: String,
    name: Option<String>,
    #[serde(default)]
    state: String,
    /// ready, compiling or failed.
    #[serde(default)]
    component: String,
    reason: Option<String>,
}

/// One revision of a component.
#[derive(Debug, Deserialize)]
struct RevisionView {
    revision: u32,
    #[serde(default)]
    digest: String,
    deployed_at: Option<String>,
    #[serde(default)]
    handlers: Vec<String>,
    manifest: Option<Manifest>,
}

/// How many characters of a digest a list shows.
const SHORT_DIGEST_CHARS: usize = 12;

/// Shortens a digest in a list.
fn short_digest(digest: &str) -> String {
    let short = digest.get(..SHORT_DIGEST_CHARS).unwrap_or(digest);
    plain::line(short).into_owned()
}

/// Writes names one after the other.
fn names(names: &[String]) -> String {
    let names: Vec<_> = names.iter().map(|name| plain::line(name)).collect();
    names.join(" ")
}

/// Returns the path of a component.
fn path(name: &str) -> String {
    format!("/api/v1/components/{}", segment(name))
}

/// Asks for one component.
fn fetch(client: &Client, doing: &str, name: &str) -> Result<Answer, CliError> {
    let answer = client.get(doing, &path(name), Duration::ZERO);
    answer.map_err(unknown)
}

fn unknown(error: CliError) -> CliError {
    match error.exit() {
        Exit::NotFound => error.next("`host component ls` lists the components"),
        _ => error,
    }
}

/// A handler that a component had before a deploy or a rollback, and has no more.
#[derive(Deserialize)]
pub(super) struct RemovedHandler {
    handler: String,
    jobs: u64,
}

/// Prints which handlers are no longer deployed, and what their jobs come to.
pub(super) fn put_removed(removed: &[RemovedHandler]) -> Result<(), CliError> {
    let lines = removed.iter().map(|it| {
        let handler = plain::line(&it.handler);
        match it.jobs {
            0 => format!("- {handler}"),
            1 => format!("- {handler}: 1 job that has not ended will fail"),
            jobs => format!("- {handler}: {jobs} jobs that have not ended will fail"),
        }
    });
    put_list("no longer deployed", lines)
}

/// Tells how to keep the jobs of handlers that are no longer deployed.
pub(super) fn hint_removed(output: Output, removed: &[RemovedHandler]) {
    if removed.iter().any(|it| it.jobs > 0) {
        output.hint(
            "jobs fail when they start without a handler: deploy a component that has it; `host job retry ID` \
             runs those that have failed",
        );
    }
}

/// Prints what handlers may reach that they could not reach before.
pub(super) fn put_new_grants(grants: &[String]) -> Result<(), CliError> {
    let lines = grants.iter().map(|it| format!("+ {}", plain::line(it)));
    put_list("new grants", lines)
}

/// A limit of a handler that a deploy or a rollback has changed.
#[derive(Deserialize)]
pub(super) struct LimitChange {
    handler: String,
    /// With its unit: `memory_bytes`, `timeout_ms`.
    limit: String,
    before: Option<u64>,
    after: Option<u64>,
}

/// Prints which limits are not what they were: one line for all handlers with the same change.
pub(super) fn put_changed_limits(changes: &[LimitChange]) -> Result<(), CliError> {
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for change in changes {
        let (what, handler) = (change.what(), plain::line(&change.handler).into_owned());
        match lines.iter_mut().find(|(known, _)| *known == what) {
            Some((_, handlers)) => handlers.push(handler),
            None => lines.push((what, vec![handler])),
        }
    }
    let lines = lines.into_iter();
    let lines = lines.map(|(what, handlers)| format!("{what}: {}", handlers.join(" ")));
    put_list("changed limits", lines)
}

impl LimitChange {
    /// Returns the limit with both values: `memory 128.0 MiB → 64.0 MiB`.
    fn what(&self) -> String {
        let limit = self.limit.trim_end_matches("_max");
        let (name, show): (_, fn(u64) -> String) = if let Some(name) = limit.strip_suffix("_bytes")
        {
            (name, human::bytes)
        } else if let Some(name) = limit.strip_suffix("_ms") {
            (name, human::took)
        } else {
            (limit, human::count)
        };
        let value = |value: Option<u64>| value.map_or_else(|| "default".to_owned(), show);
        let name = plain::line(name).replace('_', " ");
        format!("{name} {} → {}", value(self.before), value(self.after))
    }
}

/// Prints the interfaces that a component imports and is not given.
pub(super) fn put_stubbed(interfaces: &[String]) -> Result<(), CliError> {
    let lines = interfaces.iter().map(|it| plain::line(it).into_owned());
    put_list("not given: calls of these fail", lines)
}

/// Prints lines below a title, and nothing if there are none.
fn put_list(title: &str, lines: impl Iterator<Item = String>) -> Result<(), CliError> {
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        return Ok(());
    }
    put_section(title, &lines.join("\n"))
}
