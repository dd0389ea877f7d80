//! `host handler`: what its verbs share: limits in words.

mod ls;
mod show;

use clap::{Args, Subcommand};
use host_api::handler::LimitsView;
use host_console::error::CliError;
use host_console::human;
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
