//! `host job reschedule`: moves the start of jobs that wait.

use clap::Args;
use host_console::client::segment;
use host_console::error::CliError;
use host_console::human;
use host_console::ids::each;
use host_console::options::Remote;
use host_console::output::put_line;
use host_console::plain;
use host_core::seconds::Seconds;
use serde_json::json;

use super::{View, parse_id};

/// Move the start of jobs that wait.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host job reschedule 01990f3c --after 0s
  host job reschedule 01990f3c --at 2026-05-17T02:00:00Z

A start that has passed is now. A job that waits for other jobs still waits for them.")]
pub(super) struct Reschedule {
    /// The jobs' ids or prefixes of them
    #[arg(required = true, value_name = "ID", value_parser = parse_id)]
    ids: Vec<String>,
    /// Start at this time
    #[arg(long, value_name = "TIME", value_parser = human::parse_time)]
    #[arg(conflicts_with = "after", required_unless_present = "after")]
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
        let body = match (&self.at, self.after) {
            (Some(at), _) => json!({"run_at": at}),
            (None, after) => json!({"delay_seconds": after}),
        };
        let body = body.to_string();
        each(&self.ids, |id| {
            let shown = plain::line(id);
            let doing = format!("reschedule job {shown}");
            let path = format!("/api/v1/jobs/{}/reschedule", segment(id));
            let answer = client.post(&doing, &path, &body)?;
            let view: View = answer.read(&doing)?;
            output.one(&answer.body, &shown, || {
                let starts = view.run_at.as_deref();
                let starts =
                    starts.map(|at| format!(", starts {}", human::instant(answer.now, at)));
                let state = plain::line(&view.state);
                put_line(&format!("{shown} is {state}{}", starts.unwrap_or_default()))
            })
        })
    }
}
