//! `host job reschedule`: moves the start of jobs that wait.

use clap::{ArgGroup, Args};
use host_api::change::RescheduleBody;
use host_console::error::{CliError, cannot};
use host_console::human;
use host_console::ids::each;
use host_console::options::Remote;
use host_console::output::put_line;
use host_console::plain;
use host_core::seconds::Seconds;

use super::parse_id;
use crate::complete;

/// Change when waiting jobs start.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host job reschedule 01990f3c --after 0s
  host job reschedule 01990f3c --at 2026-05-17T02:00:00Z

A time in the past means now. A job that waits for other jobs still waits for them.")]
#[command(group(ArgGroup::new("start").required(true).args(["at", "after"])))]
pub(super) struct Reschedule {
    /// The jobs' ids or prefixes of them
    #[arg(required = true, value_name = "ID", value_parser = parse_id)]
    #[arg(add = complete::jobs())]
    ids: Vec<String>,
    /// Start at this time
    #[arg(long, value_name = "TIME", value_parser = human::parse_time)]
    at: Option<String>,
    /// Start after this long
    #[arg(long, value_name = "DURATION", value_parser = human::parse_duration)]
    after: Option<Seconds>,
    #[command(flatten)]
    remote: Remote,
}

impl Reschedule {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let body = RescheduleBody {
            run_at: self.at,
            delay_seconds: self.after,
        };
        each(&self.ids, |id| {
            let shown = plain::line(id);
            let doing = format!("reschedule job {shown}");
            let answer = client.reschedule_job(id, &body).map_err(cannot(&doing))?;
            output.print_item(&answer.json, &shown, || {
                let run_at = answer.view.run_at.as_deref();
                let starts =
                    run_at.map(|at| format!(", starts {}", human::instant(answer.now, at)));
                let state = plain::line(&answer.view.state);
                put_line(&format!("{shown} is {state}{}", starts.unwrap_or_default()))
            })
        })
    }
}
