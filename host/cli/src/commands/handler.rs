//! `host handler`: what its verbs share: limits and grants in words.

mod ls;
mod show;

use clap::{Args, Subcommand};
use host_api::handler::{GrantsView, LimitsView};
use host_console::error::CliError;
use host_console::{human, plain};
use host_core::handler::FUEL_PER_SECOND;

/// List and show the handlers that jobs can run.
#[derive(Debug, Args)]
pub(crate) struct Handler {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the handlers
    Ls(ls::Ls),
    /// Show a handler's description, params, limits and grants
    Show(show::Show),
}

impl Handler {
    /// Runs the verb.
    pub(crate) fn run(self) -> Result<(), CliError> {
        match self.verb {
            Verb::Ls(ls) => ls.run(),
            Verb::Show(show) => show.run(),
        }
    }
}

/// Describes what a handler may access, one line each.
fn grant_lines(grants: &GrantsView) -> Vec<String> {
    let variables = grants
        .env
        .iter()
        .map(|name| format!("variable {}", plain::line(name)));
    let directories = grants.read_dirs.iter().map(|dir| {
        let (host, guest) = (plain::line(&dir.host), plain::line(&dir.guest));
        format!("read {host} as {guest}")
    });
    let requests = grants.http.iter().map(|grant| {
        let list = |words: &[String], all: &str| match words {
            [] => all.to_owned(),
            _ => plain::line(&words.join(",")).into_owned(),
        };
        let (methods, paths) = (
            list(&grant.methods, "any method"),
            list(&grant.paths, "any path"),
        );
        format!("http {} {methods} {paths}", plain::line(&grant.to))
    });
    let jobs = grants.jobs.iter().map(|grant| {
        let (handlers, queues) = (grant.handlers.join(","), grant.queues.join(","));
        format!(
            "enqueue {} in {}",
            plain::line(&handlers),
            plain::line(&queues)
        )
    });
    let state = grants.state.iter().map(|grant| {
        let mut line = format!("keep state, {} KiB", grant.quota_kib);
        if !grant.shared.is_empty() {
            let shared = grant.shared.join(", ");
            line = format!("{line}, and share {}", plain::line(&shared));
        }
        line
    });
    let secrets = grants.secrets.iter();
    let secrets = secrets.map(|name| format!("see the secret {}", plain::line(name)));
    let all = variables.chain(directories).chain(requests).chain(jobs);
    all.chain(state).chain(secrets).collect()
}

/// Describes how much CPU a handler may use.
fn fuel(limits: &LimitsView) -> String {
    match limits.fuel {
        Some(fuel) => human::count(fuel),
        None => format!(
            "{} for each second of the timeout",
            human::count(FUEL_PER_SECOND)
        ),
    }
}
