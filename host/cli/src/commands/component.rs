//! `host component`: what its verbs share: what a deploy has changed.

mod ls;
mod rm;
mod rollback;
mod show;
pub(super) mod verify;
pub(super) mod waiting;

use std::collections::BTreeSet;

use clap::{Args, Subcommand};
use host_api::client::{Answer, Client};
use host_api::component::{ComponentView, DeployedView, LimitChangeView, RemovedHandlerView};
use host_console::error::{CliError, cannot_find};
use host_console::options::Remote;
use host_console::output::{Output, put_section};
use host_console::{human, plain};

use crate::complete;

/// List, show, roll back and remove deployed components, and check signatures.
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
    Show(ComponentArgs),
    /// Go back to an earlier revision; running attempts keep the one they started with
    Rollback(rollback::Rollback),
    /// Remove a component and its handlers; refused while it has unfinished jobs
    #[command(after_help = "Example:\n  host component rm basics")]
    Rm(ComponentArgs),
    /// Check whether a trusted key has signed a file
    Verify(verify::Verify),
}

#[derive(Debug, Args)]
struct ComponentArgs {
    /// The component's name
    #[arg(add = complete::components())]
    name: String,
    #[command(flatten)]
    remote: Remote,
}

/// What helps if the host does not know a component.
const LISTED: &str = "`host component ls` lists the components";

impl Component {
    /// Runs the verb.
    pub(crate) fn run(self) -> Result<(), CliError> {
        match self.verb {
            Verb::Ls(remote) => ls::run(&remote),
            Verb::Show(named) => show::run(&named),
            Verb::Rollback(rollback) => rollback.run(),
            Verb::Rm(named) => rm::run(&named),
            Verb::Verify(verify) => verify.run(),
        }
    }
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

/// Asks for one component.
fn fetch(client: &Client, doing: &str, name: &str) -> Result<Answer<ComponentView>, CliError> {
    client.component(name).map_err(cannot_find(doing, LISTED))
}

/// Prints which handlers are no longer deployed, and what their jobs come to.
pub(super) fn put_removed(removed: &[RemovedHandlerView]) -> Result<(), CliError> {
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
pub(super) fn hint_removed(output: Output, removed: &[RemovedHandlerView]) {
    if removed.iter().any(|it| it.jobs > 0) {
        output.hint(
            "jobs fail when they start without a handler: deploy a component that has it; `host job retry ID` \
             runs those that have failed",
        );
    }
}

/// Prints what handlers may reach that they could not reach before, and what they can no longer reach.
pub(super) fn put_grants(deployed: &DeployedView) -> Result<(), CliError> {
    let added = deployed
        .grants_added
        .iter()
        .map(|it| format!("+ {}", plain::line(it)));
    put_list("new grants", added)?;
    let removed = deployed
        .grants_removed
        .iter()
        .map(|it| format!("- {}", plain::line(it)));
    put_list("grants removed", removed)
}

/// Prints which limits are not what they were: one line for all handlers with the same change.
pub(super) fn put_changed_limits(changes: &[LimitChangeView]) -> Result<(), CliError> {
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for change in changes {
        let (what, handler) = (
            changed_limit(change),
            plain::line(&change.handler).into_owned(),
        );
        match lines.iter_mut().find(|(known, _)| *known == what) {
            Some((_, handlers)) => handlers.push(handler),
            None => lines.push((what, vec![handler])),
        }
    }
    let lines = lines
        .into_iter()
        .map(|(what, handlers)| format!("{what}: {}", handlers.join(" ")));
    put_list("changed limits", lines)
}

/// Returns a limit with both values: `memory 128.0 MiB → 64.0 MiB`.
fn changed_limit(change: &LimitChangeView) -> String {
    let limit = change.limit.trim_end_matches("_max");
    let (name, show): (_, fn(u64) -> String) = if let Some(name) = limit.strip_suffix("_bytes") {
        (name, human::bytes)
    } else if let Some(name) = limit.strip_suffix("_ms") {
        (name, human::took)
    } else {
        (limit, human::count)
    };
    let value = |value: Option<u64>| value.map_or_else(|| "default".to_owned(), show);
    let name = plain::line(name).replace('_', " ");
    format!("{name} {} → {}", value(change.before), value(change.after))
}

/// Says what a component imports that handlers do not have.
pub(super) fn note_stubbed(output: Output, interfaces: &[String]) {
    let missing: BTreeSet<_> = interfaces
        .iter()
        .filter_map(|it| it.split('@').next())
        .map(plain::line)
        .collect();
    if !missing.is_empty() {
        let missing: Vec<_> = missing.into_iter().collect();
        output.note(&format!(
            "the component can call {}, as the standard library of Python does; a job that calls it fails with \
             grant_missing",
            missing.join(" and ")
        ));
    }
}

/// Prints lines below a title, and nothing if there are none.
fn put_list(title: &str, lines: impl Iterator<Item = String>) -> Result<(), CliError> {
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        return Ok(());
    }
    put_section(title, &lines.join("\n"))
}
