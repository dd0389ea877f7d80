//! `host job cancel`: asks jobs to stop and, with `--wait`, waits until they have.

use clap::Args;
use host_console::client::{Client, segment};
use host_console::error::{CliError, Exit};
use host_console::ids::each;
use host_console::options::Remote;
use host_console::output::{Format, Output, put_line};
use host_console::{human, plain};
use host_core::job::State;
use host_core::seconds::Seconds;
use serde::{Deserialize, Serialize};

use super::many::{Action, Many};
use super::{parse_id, short_id, wait};

/// Stop jobs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host job cancel 01990f3c --reason 'wrong input' --wait
  host job cancel 01990f3c --grace 0s
  host job cancel --all --queue nightly --dry-run")]
pub(super) struct Cancel {
    /// The jobs' ids or prefixes of them
    #[arg(required_unless_present = "all", value_name = "ID", value_parser = parse_id)]
    ids: Vec<String>,
    #[command(flatten)]
    many: Many,
    /// Why; the reason is kept with the job
    #[arg(long)]
    reason: Option<String>,
    /// How long a running handler may take to stop by itself
    #[arg(long, value_name = "DURATION", value_parser = human::parse_duration)]
    grace: Option<Seconds>,
    /// Wait until they have stopped
    #[arg(long, conflicts_with = "all")]
    wait: bool,
    #[command(flatten)]
    remote: Remote,
}

const CANCEL: Action = Action {
    name: "cancel",
    states: LIVE,
    allowed: LIVE,
    done: "cancelled or asked to stop",
};

/// The states of jobs that have not ended.
const LIVE: &[State] = &[
    State::Pending,
    State::Scheduled,
    State::Available,
    State::Running,
    State::Retryable,
];

#[derive(Serialize)]
struct Request<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_seconds: Option<Seconds>,
}

#[derive(Deserialize)]
struct Cancelled {
    state: String,
}

impl Cancel {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        if self.many.is_asked() {
            let body = self.body("cancel jobs")?;
            return self.many.run(&client, output, &CANCEL, &body);
        }
        each(&self.ids, |id| self.one(&client, output, id))
    }

    fn body(&self, doing: &str) -> Result<String, CliError> {
        let request = Request {
            reason: self.reason.as_deref(),
            grace_seconds: self.grace,
        };
        serde_json::to_string(&request).map_err(|error| CliError::new(Exit::Failed, doing, error))
    }

    fn one(&self, client: &Client, output: Output, id: &str) -> Result<(), CliError> {
        let shown = plain::line(id);
        let doing = format!("cancel job {shown}");
        let body = self.body(&doing)?;
        let path = format!("/api/v1/jobs/{}/cancel", segment(id));
        let answer = client.post(&doing, &path, &body)?;
        let cancelled: Cancelled = answer.read(&doing)?;
        let (document, state) = if self.wait && cancelled.state != "cancelled" {
            let (answer, view) = wait::ended(client, output, id, None)?;
            (answer.body, view.0.state)
        } else {
            (answer.body, cancelled.state)
        };
        let state = plain::line(&state);
        match output.format() {
            Format::Json | Format::Jsonl => output.json(&document),
            Format::Name => put_line(&shown),
            Format::Table if state == "running" => {
                put_line(&format!("{shown} was asked to stop"))?;
                output.hint(&format!(
                    "it is still running; `host job wait {}` waits until it has stopped",
                    short_id(id)
                ));
                Ok(())
            }
            Format::Table => put_line(&format!("{shown} is {state}")),
        }
    }
}
