//! `host job wait`: waits in slices until a job ends, then prints its result and how it went.

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use host_core::seconds::Seconds;
use host_server::clock::Clock;

use super::{View, between, short_id};
use crate::args::Remote;
use crate::client::{Answer, Client, segment};
use crate::error::{CliError, Exit};
use crate::output::{Format, Output, put_line};
use crate::progress::Spinner;
use crate::{human, json, plain};

/// How long one request waits where nobody watches, in milliseconds; less than the host's limit.
const SLICE_MS: u64 = 60_000;

/// How long one request waits where a spinner shows the progress, in milliseconds.
const SLICE_LIVE_MS: u64 = 1_000;

/// The pause before a host that does not answer any more is asked again, in milliseconds; it doubles
/// up to the longest one. It is also the pause after an answer that came too early: the host stops.
const AGAIN_MS: u64 = 200;
const AGAIN_MS_MAX: u64 = 5_000;

/// How long a host that has answered may be away where the wait has no end, in milliseconds.
const AWAY_MS_MAX: u64 = 300_000;

/// Wait until a job ends and print its result.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host job wait 01990f3c --timeout 5m
  host job wait 01990f3c -o json | jq .result

A host that is started again meanwhile is asked again, until the timeout or for five minutes.

Exit codes: 0 completed, 3 discarded, 4 cancelled, 6 no host answers, 7 the wait ran out.")]
pub(super) struct Wait {
    /// The job's id or the start of it
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

/// Waits for the end of a job, prints what it returned and fails if it did not complete.
pub(super) fn until_end(
    client: &Client,
    output: Output,
    id: &str,
    timeout: Option<Seconds>,
) -> Result<(), CliError> {
    let (answer, view) = ended(client, output, id, timeout)?;
    if !view.is_terminal() {
        return Err(ran_out(&view, timeout));
    }
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

/// Waits until a job ends or `timeout` has passed and returns how it is then.
pub(super) fn ended(
    client: &Client,
    output: Output,
    id: &str,
    timeout: Option<Seconds>,
) -> Result<(Answer, View), CliError> {
    let doing = format!("wait for job {}", plain::line(id));
    let slice_ms = if output.is_live() {
        SLICE_LIVE_MS
    } else {
        SLICE_MS
    };
    let spinner = Spinner::new(output, &doing);
    let time = Left::new(timeout);
    let mut away = Away::default();
    loop {
        let asked = Seconds {
            ms: slice_ms.min(time.left_ms()),
        };
        let path = format!(
            "/api/v1/jobs/{}/wait?timeout_seconds={}",
            segment(id),
            f64::from(asked)
        );
        let began_ms = time.passed_ms();
        let pause_ms = match client.get(&doing, &path, Duration::from_millis(asked.ms)) {
            Ok(answer) => {
                let view: View = answer.read(&doing)?;
                away = Away::default();
                let early_ms = (began_ms + asked.ms).saturating_sub(time.passed_ms());
                let pause_ms = AGAIN_MS.min(early_ms);
                if view.is_terminal() || time.left_ms() <= pause_ms {
                    return Ok((answer, view));
                }
                spinner.say(&now_at(&view));
                pause_ms
            }
            Err(error) => {
                let lost = error.exit() == Exit::Unreachable && client.was_answering();
                let patience_ms = time.left_ms().min(away.left_ms(began_ms));
                if !lost || patience_ms == 0 {
                    return Err(error);
                }
                if away.pauses == 0 {
                    output.note("the host does not answer any more; asking until it does");
                }
                away.next_pause_ms(time.passed_ms()).min(patience_ms)
            }
        };
        pause(pause_ms);
    }
}

/// How much of the wait is left.
struct Left {
    clock: Clock,
    total_ms: u64,
}

impl Left {
    fn new(timeout: Option<Seconds>) -> Self {
        Self {
            clock: Clock::start(),
            total_ms: timeout.map_or(u64::MAX, |timeout| timeout.ms),
        }
    }

    fn passed_ms(&self) -> u64 {
        u64::try_from(self.clock.uptime().as_millis()).unwrap_or(u64::MAX)
    }

    fn left_ms(&self) -> u64 {
        self.total_ms.saturating_sub(self.passed_ms())
    }
}

/// How long a host has been away.
#[derive(Default)]
struct Away {
    pauses: u32,
    since_ms: Option<u64>,
}

impl Away {
    fn left_ms(&self, now_ms: u64) -> u64 {
        let since_ms = self.since_ms.unwrap_or(now_ms);
        AWAY_MS_MAX.saturating_sub(now_ms.saturating_sub(since_ms))
    }

    fn next_pause_ms(&mut self, now_ms: u64) -> u64 {
        self.since_ms.get_or_insert(now_ms);
        let pause_ms = AGAIN_MS << self.pauses.min(16);
        self.pauses += 1;
        pause_ms.min(AGAIN_MS_MAX)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "whoever is away is left alone for a while"
)]
fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

fn now_at(view: &View) -> String {
    let state = plain::line(&view.state);
    let name = plain::line(&view.handler);
    match &view.progress {
        Some(progress) => format!("{name} is {state}: {}", progress.line()),
        None => format!("{name} is {state}, attempt {}", view.attempts()),
    }
}

fn ran_out(view: &View, timeout: Option<Seconds>) -> CliError {
    let id = short_id(&view.id);
    CliError::new(
        Exit::WaitRanOut,
        format!("wait longer for job {id}"),
        format!(
            "after {} it is {}",
            human::took(timeout.map_or(0, |timeout| timeout.ms)),
            plain::line(&view.state)
        ),
    )
    .next(format!(
        "it goes on; `host job wait {id}` waits again, `host job cancel {id}` stops it"
    ))
}

fn print(output: Output, view: &View) -> Result<(), CliError> {
    if let Some(result) = &view.result {
        put_line(&json::pretty(&json::harmless(result.get())))?;
    }
    let mut end = plain::line(&view.state).into_owned();
    let took = between(view.enqueued_at.as_deref(), view.finished_at.as_deref());
    if !took.is_empty() {
        let _infallible = write!(end, " after {took}");
    }
    let _infallible = write!(end, ", attempt {}", view.attempts());
    if let Some(failure) = &view.failure {
        let _infallible = write!(end, ": {}", failure.line());
    }
    output.note(&end);
    let id = short_id(&view.id);
    if view.exit() == Exit::JobFailed {
        output.hint(&format!(
            "`host job show {id}` and `host job logs {id}` say more; `host job retry {id}` runs it \
             again"
        ));
    }
    Ok(())
}
