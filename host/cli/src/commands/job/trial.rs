//! Runs one job for a person who writes its handler: prints its log, result and end, and returns what
//! it cost.

use std::time::Duration;

use host_api::attempt::AttemptView;
use host_console::client::{Client, segment};
use host_console::error::{CliError, Exit};
use host_console::output::Output;
use host_console::waiting::Awaited as _;
use host_console::{json, plain};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{View, logs, wait};

/// How a job ended and what its attempts cost together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    /// How it ended.
    pub(crate) exit: Exit,
    pub(crate) fuel: u64,
    pub(crate) cpu_us: u64,
    /// The most memory that one attempt took.
    pub(crate) peak_memory_bytes: u64,
}

#[derive(Serialize)]
struct Request<'a> {
    handler: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Accepted {
    id: String,
}

#[derive(Deserialize)]
struct Attempts {
    items: Vec<AttemptView>,
}

/// Enqueues a job and waits for its end.
pub(crate) fn run(
    client: &Client,
    output: Output,
    handler: &str,
    params: Option<&RawValue>,
) -> Result<Trial, CliError> {
    let doing = format!("run {}", plain::line(handler));
    let request = Request { handler, params };
    let body = serde_json::to_string(&request)
        .map_err(|error| CliError::new(Exit::Failed, &doing, error))?;
    let accepted: Accepted = client.post(&doing, "/api/v1/jobs", &body)?.read(&doing)?;
    let (answer, view) = wait::ended(client, output, &accepted.id, None)?;
    let log = logs::all(client, &doing, &view.id)?;
    if output.is_human() {
        logs::print_all(&log)?;
        view.print(output)?;
    } else {
        let log: Vec<_> = log.iter().map(|line| line.get()).collect();
        let log = format!("[{}]", log.join(","));
        output.json(&json::with_member(&answer.body, "log", &log))?;
    }
    view.tell_end(output);
    let path = format!("/api/v1/jobs/{}/attempts", segment(&view.id));
    let attempts: Attempts = client.get(&doing, &path, Duration::ZERO)?.read(&doing)?;
    Ok(cost(&view, &attempts.items))
}

fn cost(view: &View, attempts: &[AttemptView]) -> Trial {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the host's own number, which is not negative"
    )]
    let cpu_us = |attempt: &AttemptView| (attempt.cpu_ms * 1e3) as u64;
    let peaks = attempts.iter().map(|attempt| attempt.peak_memory_bytes);
    Trial {
        exit: view.exit(),
        fuel: attempts.iter().map(|attempt| attempt.fuel).sum(),
        cpu_us: attempts.iter().map(cpu_us).sum(),
        peak_memory_bytes: peaks.max().unwrap_or_default(),
    }
}
