//! `host job retry`: runs discarded and cancelled jobs again.

use clap::Args;
use host_console::client::{Client, segment};
use host_console::error::CliError;
use host_console::ids::each;
use host_console::options::Remote;
use host_console::output::{Format, Output, put_line};
use host_console::plain;
use serde::Deserialize;

use super::{short_id, wait};

/// Run discarded or cancelled jobs again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host job retry 01990f3c --wait
  host job ls --state discarded -o name | xargs host job retry")]
pub(super) struct Retry {
    /// The jobs' ids or prefixes of them
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// Wait until they end and print their results
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Deserialize)]
struct Retried {
    state: String,
}

impl Retry {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        each(&self.ids, |id| self.one(&client, output, id))
    }

    fn one(&self, client: &Client, output: Output, id: &str) -> Result<(), CliError> {
        let shown = plain::line(id);
        let doing = format!("retry job {shown}");
        let path = format!("/api/v1/jobs/{}/retry", segment(id));
        let answer = client.post(&doing, &path, "{}")?;
        if self.wait {
            return wait::until_end(client, output, id, None);
        }
        let retried: Retried = answer.read(&doing)?;
        match output.format() {
            Format::Json | Format::Jsonl => output.json(&answer.body),
            Format::Name => put_line(&shown),
            Format::Table => {
                put_line(&format!("{shown} is {}", plain::line(&retried.state)))?;
                output.hint(&format!(
                    "`host job wait {}` waits for its result",
                    short_id(id)
                ));
                Ok(())
            }
        }
    }
}
