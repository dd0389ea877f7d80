//! `host job set-priority`: gives jobs that have not ended another priority.

use clap::Args;
use host_api::change::PriorityBody;
use host_console::error::{CliError, cannot};
use host_console::ids::each;
use host_console::options::Remote;
use host_console::output::put_line;
use host_console::{human, plain};

use super::parse_id;

/// Change the priority of jobs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host job set-priority 01990f3c --to 0
  host job ls --state available --queue nightly -o name | xargs host job set-priority --to 9

A running job has it from its next attempt on.")]
pub(super) struct SetPriority {
    /// The jobs' ids or prefixes of them
    #[arg(required = true, value_name = "ID", value_parser = parse_id)]
    ids: Vec<String>,
    /// 0 starts first, 9 last
    #[arg(long, value_name = "0-9", value_parser = human::whole::<u8>(0, 9))]
    to: u8,
    #[command(flatten)]
    remote: Remote,
}

impl SetPriority {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let priority = self.to;
        let body = PriorityBody {
            priority: priority.into(),
        };
        each(&self.ids, |id| {
            let shown = plain::line(id);
            let doing = format!("set the priority of job {shown}");
            let answer = client.set_priority(id, &body).map_err(cannot(&doing))?;
            output.one(&answer.json, &shown, || {
                put_line(&format!("{shown} has priority {priority}"))
            })
        })
    }
}
