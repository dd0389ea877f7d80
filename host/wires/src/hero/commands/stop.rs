//! `host hero stop`: asks the workers of jobs to stop them.

use clap::Args;
use host_console::client::{Client, segment};
use host_console::error::CliError;
use host_console::ids::each;
use host_console::options::Remote;
use host_console::output::{Output, put_line};
use host_console::plain;
use serde::Deserialize;

/// Stop jobs.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  host hero stop 3f2b8a1c-7d5e-4c1a-9b1e-0a6f4d2c8e11")]
pub(super) struct Stop {
    /// The jobs' ids
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Deserialize)]
struct Stopped {
    #[serde(default)]
    stopped: bool,
}

impl Stop {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        each(&self.ids, |id| one(&client, output, id))
    }
}

fn one(client: &Client, output: Output, id: &str) -> Result<(), CliError> {
    let shown = plain::line(id);
    let doing = format!("stop job {shown}");
    let path = format!("/api/v1/hero/jobs/{}/stop", segment(id));
    let answer = client.post(&doing, &path, "{}")?;
    let Stopped { stopped } = answer.read(&doing)?;
    output.one(&answer.body, &shown, || {
        if stopped {
            return put_line(&format!("{shown} has stopped; it was not queued yet"));
        }
        put_line(&format!("{shown} is asked to stop"))?;
        output.hint(&format!(
            "its worker decides when; `host hero wait {shown}` waits for that"
        ));
        Ok(())
    })
}
