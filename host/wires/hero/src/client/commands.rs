//! `host hero`: its verbs, and how they show a job in the Redis of Hero dispatchers.

mod logs;
mod ls;
mod requeue;
mod status;
mod stop;
mod submit;
mod wait;
mod worker;

use clap::{Args, Subcommand};
use host_console::command::Derived;
use host_console::error::CliError;
use host_console::plain;

use crate::client::api::view::{HeroJobView, WaitsFor};

/// The noun `hero`.
pub(crate) static COMMAND: Derived<Hero> = Derived::new("hero", Hero::run);

/// Submit, watch and steer jobs of Hero workers, in the Redis a host is configured for.
#[derive(Debug, Args)]
pub(crate) struct Hero {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List jobs, the newest first
    Ls(ls::Ls),
    /// Store a job and queue it for its worker
    Submit(submit::Submit),
    /// Submit a job, wait until it ends and print its output
    Run(submit::Run),
    /// Show everything about a job
    Status(status::Status),
    /// Wait until a job ends and print its output
    Wait(wait::Wait),
    /// Print the end of a job's log file
    Logs(logs::Logs),
    /// Stop jobs
    Stop(stop::Stop),
    /// Requeue jobs that have failed or whose worker has lost them
    Requeue(requeue::Requeue),
    /// Show the lengths of a worker's queues
    Worker(worker::Worker),
}

impl Hero {
    /// Runs the verb.
    fn run(self) -> Result<(), CliError> {
        match self.verb {
            Verb::Ls(ls) => ls.run(),
            Verb::Submit(submit) => submit.run(),
            Verb::Run(run) => run.run(),
            Verb::Status(status) => status.run(),
            Verb::Wait(wait) => wait.run(),
            Verb::Logs(logs) => logs.run(),
            Verb::Stop(stop) => stop.run(),
            Verb::Requeue(requeue) => requeue.run(),
            Verb::Worker(worker) => worker.run(),
        }
    }
}

impl HeroJobView {
    /// Returns why it has failed.
    fn error(&self) -> Option<&str> {
        self.rest.as_ref()?.error.as_deref()
    }

    /// Returns how it is, in a few words.
    fn state(&self) -> String {
        let status = plain::line(&self.status);
        if self.stale {
            format!("{status} (stale)")
        } else if self.waits_for.is_empty() {
            status.into_owned()
        } else {
            "waiting".to_owned()
        }
    }

    /// Returns what it runs, in a few words.
    fn runs(&self) -> String {
        let script = || self.script_type.as_deref().unwrap_or("script");
        let runs = self.handler.as_deref().unwrap_or_else(script);
        plain::line(runs).into_owned()
    }

    /// Returns which jobs it waits for and how they are, at most so many.
    fn waits_for(&self, at_most: usize) -> String {
        let one = |other: &WaitsFor| match &other.status {
            Some(status) => format!("{} ({})", plain::line(&other.id), plain::line(status)),
            None => plain::line(&other.id).into_owned(),
        };
        let mut shown: Vec<String> = self.waits_for.iter().take(at_most).map(one).collect();
        let more = self.waits_for.len().saturating_sub(at_most);
        if more > 0 {
            shown.push(format!("+{more}"));
        }
        shown.join(" ")
    }
}
