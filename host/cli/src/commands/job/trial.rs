//! Runs one job for a person who writes its handler: prints its log, result and end, and returns what
//! it cost.

use host_api::attempt::AttemptView;
use host_api::client::Client;
use host_api::new_job::NewJobBody;
use host_console::error::{CliError, Exit, cannot};
use host_console::output::{Output, array, say};
use host_console::waiting::{self, Awaited as _};
use host_console::{json, plain};
use host_core::seconds::Seconds;
use serde_json::value::RawValue;

use super::logs::{self, Log};
use super::{View, failure_text};

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

/// Enqueues a job with a single attempt, passes its id to `began`, and waits for its end. Its log is printed as it comes.
pub(crate) fn run(
    client: &Client,
    output: Output,
    handler: &str,
    params: Option<Box<RawValue>>,
    began: impl FnOnce(&str),
) -> Result<Trial, CliError> {
    let doing = format!("run {}", plain::line(handler));
    let job = NewJobBody {
        handler: handler.into(),
        params,
        max_attempts: Some(1),
        ..NewJobBody::default()
    };
    let accepted = client.enqueue(&job).map_err(cannot(&doing))?.view;
    began(&accepted.id);
    let id = &accepted.id;
    let mut log = Log::default();
    let mut print_log = || {
        if !output.is_human() {
            return Ok(());
        }
        log.print_new(client, output, &doing, id)
    };
    let wait = |timeout: Seconds| {
        let ms = timeout.ms.min(logs::POLL.ms);
        Ok(client.wait_for_job(id, Seconds { ms })?.map(View))
    };
    // What cannot be read now is read again with the next answer, and at the end.
    let report = |_: &View| drop(print_log());
    let answer = waiting::last_answer(client, output, &doing, wait, report, None)?;
    let view = answer.view;
    print_log()?;
    if output.is_human() {
        view.print(output)?;
    } else {
        let log = logs::fetch_all(client, &doing, id)?;
        output.json(&json::with_member(&answer.json, "log", &array(&log)))?;
    }
    output.ending(&view.ending(), view.exit() != Exit::Ok);
    // The line above has the first one.
    let failure = view.failure.as_ref().map(failure_text).unwrap_or_default();
    failure.lines().skip(1).for_each(say);
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
