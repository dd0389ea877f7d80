//! `host job set-priority`: gives jobs that have not ended another priority.

use clap::{ArgGroup, Args};
use host_api::change::PriorityBody;
use host_api::filter::FilterQuery;
use host_console::error::{CliError, cannot};
use host_console::ids::each;
use host_console::options::Remote;
use host_console::output::put_line;
use host_console::{human, plain};
use host_core::job::State;

use super::many::{Action, Many};
use super::parse_id;
use crate::complete;

/// Change the priority of jobs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host job set-priority 01990f3c --to 0
  host job set-priority --to 9 --all --state available --queue nightly --dry-run

A running job gets it with its next attempt.")]
#[command(group(ArgGroup::new("which").required(true).args(["ids", "all"])))]
pub(super) struct SetPriority {
    /// The jobs' ids or prefixes of them
    #[arg(value_name = "ID", value_parser = parse_id)]
    #[arg(add = complete::jobs())]
    ids: Vec<String>,
    #[command(flatten)]
    many: Many,
    /// 0 starts first, 9 last
    #[arg(long, value_name = "0-9", value_parser = human::whole::<u8>(0, 9))]
    to: u8,
    #[command(flatten)]
    remote: Remote,
}

const SET_PRIORITY: Action = Action {
    name: "set the priority of",
    states: &[],
    allowed: &[
        State::Pending,
        State::Scheduled,
        State::Available,
        State::Running,
        State::Retryable,
    ],
    done: "changed",
};

impl SetPriority {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let priority = self.to;
        let body = PriorityBody {
            priority: priority.into(),
        };
        if self.many.is_asked() {
            let change = |filter: &FilterQuery| client.set_priority_of_jobs(filter, &body);
            return self.many.run(&client, output, &SET_PRIORITY, change);
        }
        each(&self.ids, |id| {
            let shown = plain::line(id);
            let doing = format!("set the priority of job {shown}");
            let answer = client.set_priority(id, &body).map_err(cannot(&doing))?;
            output.print_item(&answer.json, &shown, || {
                put_line(&format!("{shown} has priority {priority}"))
            })
        })
    }
}
