//! `host hero stop`: asks the workers of jobs to stop them.

use clap::Args;
use host_api::client::Client;
use host_api::path;
use host_console::error::{CliError, cannot};
use host_console::ids::each;
use host_console::options::Remote;
use host_console::output::{Output, put_line};
use host_console::plain;
use serde_json::json;

use crate::client::api::path::STOP;
use crate::client::api::steer::StopView;

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

impl Stop {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        each(&self.ids, |id| one(&client, output, id))
    }
}

fn one(client: &Client, output: Output, id: &str) -> Result<(), CliError> {
    let shown = plain::line(id);
    let doing = format!("stop job {shown}");
    let answer = client
        .post::<StopView>(&path::with_name(STOP, id), &json!({}))
        .map_err(cannot(&doing))?;
    output.print_item(&answer.json, &shown, || {
        if answer.view.stopped {
            return put_line(&format!("{shown} has stopped; it was not queued yet"));
        }
        put_line(&format!("{shown} was asked to stop"))?;
        output.hint(&format!(
            "its worker decides when; `host hero wait {shown}` waits until then"
        ));
        Ok(())
    })
}
