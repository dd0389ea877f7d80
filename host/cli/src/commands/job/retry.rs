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
  host job retry 01990f3c --force
  host job ls --state discarded -o name | xargs host job retry")]
pub(super) struct Retry {
    /// The jobs' ids or prefixes of them
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// Start them although jobs that they depend on have not completed
    #[arg(long)]
    force: bool,
    /// Wait until they end and print their results
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    remote: Remote,
}

/// The body of a retry that does not wait for prerequisites.
const FORCE: &str = r#"{"force":true}"#;

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
