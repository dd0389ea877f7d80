//! `host handler`: what its verbs share: the handler as the API shows it, its limits and grants in
//! words.

mod ls;
mod show;

use clap::{Args, Subcommand};
use host_console::error::CliError;
use host_console::{human, plain};
use host_core::handler::{FUEL_PER_SECOND, Grants, Limits};
use host_core::seconds::Seconds;
use serde::Deserialize;
use serde_json::value::RawValue;

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

/// A handler as the API shows it.
#[derive(Debug, Deserialize)]
struct View {
    name: String,
    #[serde(default)]
    component: String,
    #[serde(default)]
    revision: u32,
    description: Option<String>,
    limits: Limits,
    #[serde(default)]
    grants: Grants,
    retention_seconds: Option<Seconds>,
    retention_discarded_seconds: Option<Seconds>,
    #[serde(default)]
    cost: Vec<RevisionCost>,
    params_schema: Option<Box<RawValue>>,
    result_schema: Option<Box<RawValue>>,
}

/// What the attempts of one revision have cost.
#[derive(Debug, Deserialize)]
struct RevisionCost {
    component: String,
    revision: u32,
    last_hour: Option<Cost>,
    last_day: Cost,
}

#[derive(Debug, Deserialize)]
struct Cost {
    runs: u64,
    failures: u64,
    ran_ms: Spread,
    fuel: Spread,
    cpu_us: Spread,
    peak_memory_bytes: Spread,
}

#[derive(Debug, Deserialize)]
struct Spread {
    p50: u64,
    p99: u64,
}

/// Describes what a handler may access, one line each.
fn grant_lines(grants: &Grants) -> Vec<String> {
    let variables = grants
        .env
        .iter()
        .map(|name| format!("variable {}", plain::line(name)));
    let directories = grants.read_dirs.iter().map(|dir| {
        let (host, guest) = (plain::line(&dir.host), plain::line(&dir.guest));
        format!("read {host} as {guest}")
    });
    variables.chain(directories).collect()
}

/// Describes how much CPU a handler may use.
fn fuel(limits: &Limits) -> String {
    match limits.fuel {
        Some(fuel) => human::count(fuel),
        None => format!(
            "{} for each second of the timeout",
            human::count(FUEL_PER_SECOND)
        ),
    }
}
