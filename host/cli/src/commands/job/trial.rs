//! Runs one job for a person who writes its handler: prints its log, result and end, and returns what
//! it cost.

use host_api::attempt::AttemptView;
use host_api::client::Client;
use host_api::new_job::NewJobBody;
use host_console::error::{CliError, Exit, cannot};
use host_console::output::{Output, array};
use host_console::waiting::Awaited as _;
use host_console::{json, plain};
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

/// Enqueues a job and waits for its end.
pub(crate) fn run(
    client: &Client,
    output: Output,
    handler: &str,
    params: Option<Box<RawValue>>,
) -> Result<Trial, CliError> {
    let doing = format!("run {}", plain::line(handler));
    let job = NewJobBody {
        handler: handler.into(),
        params,
        ..NewJobBody::default()
    };
    let accepted = client.enqueue(&job).map_err(cannot(&doing))?.view;
    let answer = wait::last_answer(client, output, &accepted.id, None)?;
    let view = answer.view;
    let log = logs::fetch_all(client, &doing, &view.id)?;
    if output.is_human() {
        logs::print_all(&log)?;
        view.print(output)?;
    } else {
        output.json(&json::with_member(&answer.json, "log", &array(&log)))?;
    }
    view.note_end(output);
    let listing = client.attempts(&view.id).map_err(cannot(&doing))?.items;
    let attempts = listing.iter().map(|item| &item.view).collect::<Vec<_>>();
    Ok(cost(&view, &attempts))
}

fn cost(view: &View, attempts: &[&AttemptView]) -> Trial {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the host's own number, which is not negative"
    )]
    let cpu_us = |attempt: &&AttemptView| (attempt.cpu_ms * 1e3) as u64;
    let peaks = attempts.iter().map(|attempt| attempt.peak_memory_bytes);
    Trial {
        exit: view.exit(),
        fuel: attempts.iter().map(|attempt| attempt.fuel).sum(),
        cpu_us: attempts.iter().map(cpu_us).sum(),
        peak_memory_bytes: peaks.max().unwrap_or_default(),
    }
}
