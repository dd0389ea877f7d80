//! `host hero wait`: waits until a job ends, then prints its output and how it went.

use clap::Args;
use host_api::client::Client;
use host_api::path;
use host_console::error::{CliError, Exit};
use host_console::interrupt::Farewell;
use host_console::options::Remote;
use host_console::output::{Output, put_line};
use host_console::waiting::{self, Awaited};
use host_console::{human, plain};
use host_core::seconds::Seconds;

use crate::client::api::path::WAIT;
use crate::client::api::view::HeroJobView;
use crate::messages::STOPPED;

/// Wait until a job ends and print its output.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  host hero wait 3f2b8a1c-7d5e-4c1a-9b1e-0a6f4d2c8e11 --timeout 5m

The wait survives a restart of the host for up to five minutes.

Exit codes: 0 finished, 3 ended in error, 4 stopped, 6 no host answers, 7 the wait timed out.")]
pub(super) struct Wait {
    /// The job's id
    id: String,
    /// Give up after this long; the job continues
    #[arg(long, value_name = "DURATION", value_parser = human::parse_duration)]
    timeout: Option<Seconds>,
    #[command(flatten)]
    remote: Remote,
}

impl Wait {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        until_end(&client, output, &self.id, self.timeout)
    }
}

/// Waits for the end of a job, prints what it returned and fails if it has not finished.
pub(super) fn until_end(
    client: &Client,
    output: Output,
    id: &str,
    timeout: Option<Seconds>,
) -> Result<(), CliError> {
    let doing = format!("wait for job {}", plain::line(id));
    let wait = |timeout| client.wait::<HeroJobView>(&path::with_name(WAIT, id), timeout);
    let _farewell = Farewell::say(output, continues(id));
    waiting::until_end(client, output, &doing, wait, |_| {}, timeout)
}

/// Says that a job does not end with the command that waits for it.
fn continues(id: &str) -> String {
    let id = plain::line(id);
    format!("the job continues; `host hero wait {id}` waits again, `host hero stop {id}` stops it")
}

impl Awaited for HeroJobView {
    fn has_ended(&self) -> bool {
        matches!(self.status.as_str(), "finished" | "error")
    }

    fn now_at(&self) -> String {
        let at = if self.waits_for.is_empty() {
            self.state()
        } else {
            format!("waiting for {}", self.waits_for(2))
        };
        format!("it is {at}")
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn print(&self, output: Output) -> Result<(), CliError> {
        let Some(rest) = &self.rest else {
            return Ok(());
        };
        let text = rest.output.as_deref().filter(|text| !text.is_empty());
        if let Some(text) = text {
            put_line(&plain::block(text))?;
        }
        for (field, bytes) in &rest.left_out {
            let size = human::bytes(*bytes);
            output.note(&format!("{} is left out: {size}", plain::line(field)));
        }
        Ok(())
    }

    fn note_end(&self, output: Output) {
        let id = plain::line(&self.id);
        match self.error() {
            Some(error) if self.status == "error" => {
                output.ending(&format!("error: {}", plain::block(error)), true);
                output.hint(&format!("`host hero requeue {id}` runs it again"));
            }
            _ => output.ending(&plain::line(&self.status), self.exit() != Exit::Ok),
        }
    }

    fn exit(&self) -> Exit {
        match (self.status.as_str(), self.error()) {
            ("finished", _) => Exit::Ok,
            ("error", Some("stopped" | STOPPED)) => Exit::Cancelled,
            ("error", _) => Exit::JobFailed,
            _ => Exit::WaitRanOut,
        }
    }

    fn ran_out(&self, timeout: Option<Seconds>) -> CliError {
        let id = plain::line(&self.id);
        let after = human::took(timeout.map_or(0, |timeout| timeout.ms));
        let cause = format!("after {after} {}", self.now_at());
        CliError::new(Exit::WaitRanOut, format!("wait longer for job {id}"), cause).next(format!(
            "{}, `host hero worker {}` shows the queues of its worker",
            continues(&self.id),
            plain::line(&self.worker_id)
        ))
    }
}
