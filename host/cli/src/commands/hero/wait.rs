//! `host hero wait`: waits in slices until a job ends, then prints its output and how it went.

use std::time::Duration;

use clap::Args;
use host_core::seconds::Seconds;

use super::View;
use crate::args::Remote;
use crate::client::{Client, segment};
use crate::error::{CliError, Exit};
use crate::output::{Format, Output, put_line};
use crate::progress::Spinner;
use crate::{human, plain};

/// How long one request waits where nobody watches, in milliseconds; less than the host's limit.
const SLICE_MS: u64 = 60_000;

/// How long one request waits where a spinner shows the progress, in milliseconds.
const SLICE_LIVE_MS: u64 = 1_000;

/// Wait until a job ends and print its output.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  host hero wait 3f2b8a1c-7d5e-4c1a-9b1e-0a6f4d2c8e11 --timeout 5m

Exit codes: 0 finished, 3 ended in error, 4 stopped, 7 the wait ran out.")]
pub(super) struct Wait {
    /// The job's id
    id: String,
    /// Give up after this long; the job goes on
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
    let live = output.is_live();
    let slice_ms = if live { SLICE_LIVE_MS } else { SLICE_MS };
    let spinner = Spinner::new(output, &doing);
    let mut left_ms = timeout.map_or(u64::MAX, |timeout| timeout.ms);
    let (answer, view) = loop {
        let asked = Seconds {
            ms: slice_ms.min(left_ms),
        };
        let path = format!(
            "/api/v1/hero/jobs/{}/wait?timeout_seconds={}",
            segment(id),
            f64::from(asked)
        );
        let answer = client.get(&doing, &path, Duration::from_millis(asked.ms))?;
        let view: View = answer.read(&doing)?;
        left_ms = left_ms.saturating_sub(asked.ms);
        if view.has_ended() {
            break (answer, view);
        }
        if left_ms == 0 {
            return Err(ran_out(&view, timeout));
        }
        spinner.say(&format!("it is {}", now_at(&view)));
    };
    drop(spinner);
    match output.format() {
        Format::Table => print(output, &view)?,
        Format::Name => put_line(&plain::line(&view.id))?,
        Format::Json | Format::Jsonl => output.json(&answer.body)?,
    }
    match view.exit() {
        Exit::Ok => Ok(()),
        exit => Err(CliError::Silent(exit)),
    }
}

fn now_at(view: &View) -> String {
    if view.waits_for.is_empty() {
        return view.state();
    }
    format!("waiting for {}", view.waits_for(2))
}

fn ran_out(view: &View, timeout: Option<Seconds>) -> CliError {
    let id = plain::line(&view.id);
    let after = human::took(timeout.map_or(0, |timeout| timeout.ms));
    let cause = format!("after {after} it is {}", now_at(view));
    CliError::new(Exit::WaitRanOut, format!("wait longer for job {id}"), cause).next(format!(
        "it goes on; `host hero wait {id}` waits again, `host hero stop {id}` stops it, `host hero \
         worker {}` shows the queues of its worker",
        plain::line(&view.worker_id)
    ))
}

fn print(output: Output, view: &View) -> Result<(), CliError> {
    let text = view.output.as_deref().filter(|text| !text.is_empty());
    if let Some(text) = text {
        put_line(&plain::block(text))?;
    }
    for (field, bytes) in &view.left_out {
        let size = human::bytes(*bytes);
        output.note(&format!("{} is left out: {size}", plain::line(field)));
    }
    let id = plain::line(&view.id);
    match &view.error {
        Some(error) if view.status == "error" => {
            output.note(&format!("error: {}", plain::block(error)));
            output.hint(&format!("`host hero requeue {id}` runs it again"));
        }
        _ => output.note(&plain::line(&view.status)),
    }
    Ok(())
}
