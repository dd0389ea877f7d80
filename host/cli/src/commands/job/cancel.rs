//! `host job cancel`: asks jobs to stop and, with `--wait`, waits until they have.

use clap::{ArgGroup, Args};
use host_api::change::CancelBody;
use host_api::client::Client;
use host_api::filter::FilterQuery;
use host_console::error::{CliError, cannot};
use host_console::ids::each;
use host_console::interrupt::Farewell;
use host_console::options::Remote;
use host_console::output::{Format, Output, put_line};
use host_console::{human, plain};
use host_core::job::State;
use host_core::seconds::Seconds;

use super::many::{Action, Many};
use super::{parse_id, short_id, wait};
use crate::complete;

/// Stop jobs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host job cancel 01990f3c --reason 'wrong input' --wait
  host job cancel 01990f3c --grace 0s
  host job cancel --all --queue nightly --dry-run")]
#[command(group(ArgGroup::new("which").required(true).args(["ids", "all"])))]
pub(super) struct Cancel {
    /// The jobs' ids or prefixes of them
    #[arg(value_name = "ID", value_parser = parse_id)]
    #[arg(add = complete::jobs())]
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
    done: "cancelled",
};

/// The states of jobs that have not ended.
const LIVE: &[State] = &[
    State::Pending,
    State::Scheduled,
    State::Available,
    State::Running,
    State::Retryable,
];

impl Cancel {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        if self.many.is_asked() {
            let body = self.body();
            let cancel = |filter: &FilterQuery| client.cancel_jobs(filter, &body);
            return self.many.run(&client, output, &CANCEL, cancel);
        }
        each(&self.ids, |id| self.cancel_one(&client, output, id))
    }

    fn body(&self) -> CancelBody {
        CancelBody {
            reason: self.reason.clone(),
            grace_seconds: self.grace,
        }
    }

    fn cancel_one(&self, client: &Client, output: Output, id: &str) -> Result<(), CliError> {
        let shown = plain::line(id);
        let doing = format!("cancel job {shown}");
        let answer = client
            .cancel_job(id, &self.body())
            .map_err(cannot(&doing))?;
        let (document, state) = if self.wait && answer.view.state != "cancelled" {
            let words = format!(
                "the job is still asked to stop; `host job show {}` shows it",
                short_id(id)
            );
            let _farewell = Farewell::say(output, words);
            let answer = wait::last_answer(client, output, id, None)?;
            (answer.json, answer.view.0.state)
        } else {
            (answer.json, answer.view.state)
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
