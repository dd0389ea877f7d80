//! `host job retry`: runs discarded and cancelled jobs again.

use clap::{ArgGroup, Args};
use host_api::change::RetryBody;
use host_api::client::Client;
use host_api::filter::FilterQuery;
use host_console::error::{CliError, cannot};
use host_console::ids::each;
use host_console::options::Remote;
use host_console::output::{Format, Output, put_line};
use host_console::plain;
use host_core::job::State;

use super::filter::Filter;
use super::many::{Action, Caution, Many};
use super::{parse_id, short_id, wait};
use crate::complete;

/// Run discarded or cancelled jobs again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host job retry 01990f3c --wait
  host job retry 01990f3c --force
  host job retry --all --queue nightly --since 1h --failure timed_out --dry-run
  host job retry --all --handler report --limit 1000 --yes")]
#[command(group(ArgGroup::new("which").required(true).args(["ids", "all"])))]
pub(super) struct Retry {
    /// The jobs' ids or prefixes of them
    #[arg(value_name = "ID", value_parser = parse_id)]
    #[arg(add = complete::jobs())]
    ids: Vec<String>,
    #[command(flatten)]
    many: Many,
    /// Start them even if jobs that they depend on have not completed; also starts pending jobs that have
    /// not run yet
    #[arg(long)]
    force: bool,
    /// Wait until they end and print their results
    #[arg(long, conflicts_with = "all")]
    wait: bool,
    #[command(flatten)]
    remote: Remote,
}

const RETRY: Action = Action {
    name: "retry",
    states: &[State::Discarded],
    allowed: &[State::Discarded, State::Cancelled],
    done: "run again",
};

/// Runs the discarded jobs that match a filter again.
pub(crate) fn matching(remote: &Remote, filter: Filter, caution: &Caution) -> Result<(), CliError> {
    let (client, output) = remote.open()?;
    let many = Many::matching(filter, &[], caution);
    let retry = |filter: &FilterQuery| client.retry_jobs(filter, &RetryBody::default());
    many.run(&client, output, &RETRY, retry)
}

impl Retry {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        if self.many.is_asked() {
            let retry = |filter: &FilterQuery| client.retry_jobs(filter, &self.body());
            return self.many.run(&client, output, &RETRY, retry);
        }
        each(&self.ids, |id| self.retry_one(&client, output, id))
    }

    fn body(&self) -> RetryBody {
        RetryBody { force: self.force }
    }

    fn retry_one(&self, client: &Client, output: Output, id: &str) -> Result<(), CliError> {
        let shown = plain::line(id);
        let doing = format!("retry job {shown}");
        let answer = client.retry_job(id, &self.body()).map_err(cannot(&doing))?;
        if self.wait {
            return wait::until_end(client, output, id, None);
        }
        match output.format() {
            Format::Json | Format::Jsonl => output.json(&answer.json),
            Format::Name => put_line(&shown),
            Format::Table => {
                put_line(&format!("{shown} is {}", plain::line(&answer.view.state)))?;
                if let Some(deadline) = &answer.view.removed_deadline {
                    let deadline = plain::line(deadline);
                    output.note(&format!(
                        "its deadline, {deadline}, has passed and was removed"
                    ));
                }
                let id = short_id(id);
                output.hint(&if answer.view.state == "pending" {
                    format!(
                        "it waits for the jobs that it depends on; `host job show {id}` names them"
                    )
                } else {
                    format!("`host job wait {id}` waits for its result")
                });
                Ok(())
            }
        }
    }
}
