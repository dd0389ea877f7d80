//! `host job retry`: runs discarded and cancelled jobs again.

use clap::Args;
use host_console::client::{Client, segment};
use host_console::error::CliError;
use host_console::ids::each;
use host_console::options::Remote;
use host_console::output::{Format, Output, put_line};
use host_console::plain;
use host_core::job::State;
use serde::Deserialize;

use super::many::{Action, Many};
use super::{parse_id, short_id, wait};

/// Run discarded or cancelled jobs again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host job retry 01990f3c --wait
  host job retry 01990f3c --force
  host job retry --all --queue nightly --since 1h --failure timed_out --dry-run
  host job retry --all --handler report --limit 1000 --yes")]
pub(super) struct Retry {
    /// The jobs' ids or prefixes of them
    #[arg(required_unless_present = "all", value_name = "ID", value_parser = parse_id)]
    ids: Vec<String>,
    #[command(flatten)]
    many: Many,
    /// Start them although jobs that they depend on have not completed; also starts pending jobs that have
    /// not run yet
    #[arg(long)]
    force: bool,
    /// Wait until they end and print their results
    #[arg(long, conflicts_with = "all")]
    wait: bool,
    #[command(flatten)]
    remote: Remote,
}

/// The body of a retry that does not wait for prerequisites.
const FORCE: &str = r#"{"force":true}"#;

const RETRY: Action = Action {
    name: "retry",
    states: &[State::Discarded],
    allowed: &[State::Discarded, State::Cancelled],
    done: "run again",
};

#[derive(Deserialize)]
struct Retried {
    state: String,
}

impl Retry {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        if self.many.is_asked() {
            let body = if self.force { FORCE } else { "{}" };
            return self.many.run(&client, output, &RETRY, body);
        }
        each(&self.ids, |id| self.one(&client, output, id))
    }

    fn one(&self, client: &Client, output: Output, id: &str) -> Result<(), CliError> {
        let shown = plain::line(id);
        let doing = format!("retry job {shown}");
        let path = format!("/api/v1/jobs/{}/retry", segment(id));
        let answer = client.post(&doing, &path, if self.force { FORCE } else { "{}" })?;
        if self.wait {
            return wait::until_end(client, output, id, None);
        }
        let retried: Retried = answer.read(&doing)?;
        match output.format() {
            Format::Json | Format::Jsonl => output.json(&answer.body),
            Format::Name => put_line(&shown),
            Format::Table => {
                put_line(&format!("{shown} is {}", plain::line(&retried.state)))?;
                let id = short_id(id);
                output.hint(&if retried.state == "pending" {
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
