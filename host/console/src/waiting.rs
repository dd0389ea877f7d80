//! Waits for a job of any kind to end, with repeated requests that also survive a restart of the
//! host. It knows no specific kind of job.

use std::time::{Duration, Instant};

use host_api::client::{Answer, Client, Error};
use host_core::seconds::Seconds;

use crate::error::{CliError, Exit, cannot};
use crate::output::{Format, Output, put_line};
use crate::plain;
use crate::progress::Spinner;

/// How long one request waits if no spinner is shown, in milliseconds. This is less than the host's
/// limit.
const SLICE_MS: u64 = 60_000;

/// How long one request waits if a spinner shows the progress, in milliseconds.
const SLICE_LIVE_MS: u64 = 1_000;

/// The delay before the next request if the host does not answer, in milliseconds. It doubles up to
/// the maximum. It is also the delay after an answer that came too early, because the host is then
/// stopping.
const AGAIN_MS: u64 = 200;
const AGAIN_MS_MAX: u64 = 5_000;

/// How long a host may be unreachable, in milliseconds.
const AWAY_MS_MAX: u64 = 300_000;

/// A job in the answer to a wait.
pub trait Awaited {
    /// Returns whether the job has ended.
    fn has_ended(&self) -> bool;

    /// Returns the job's state or progress, for people.
    fn now_at(&self) -> String;

    /// Returns the job's id.
    fn id(&self) -> &str;

    /// Prints the job's result.
    fn print(&self, output: Output) -> Result<(), CliError>;

    /// Prints how the job ended. A failure is printed even if the output is quiet.
    fn note_end(&self, output: Output);

    /// Returns the exit code for the way the job ended.
    fn exit(&self) -> Exit;

    /// Returns why the job completed, but its result cannot be shown.
    fn withheld(&self) -> Option<CliError> {
        None
    }

    /// Makes the error for a job that has not ended within `timeout`.
    fn ran_out(&self, timeout: Option<Seconds>) -> CliError;
}

/// Waits until a job ends and prints its result. If the job did not complete, the error has its exit code.
/// `doing` completes "cannot …" in errors. `wait` asks the host to wait for at most so long. `report` prints what is
/// new in each answer.
pub fn until_end<T: Awaited>(
    client: &Client,
    output: Output,
    doing: &str,
    wait: impl Fn(Seconds) -> Result<Answer<T>, Error>,
    report: impl FnMut(&T),
    timeout: Option<Seconds>,
) -> Result<(), CliError> {
    let Answer { view, json, .. } = last_answer(client, output, doing, wait, report, timeout)?;
    if !view.has_ended() {
        return Err(view.ran_out(timeout));
    }
    match output.format() {
        Format::Table => {
            view.print(output)?;
            view.note_end(output);
        }
        Format::Name => {
            put_line(&plain::line(view.id()))?;
            if view.exit() != Exit::Ok {
                view.note_end(output);
            }
        }
        Format::Json | Format::Jsonl => output.json(&json)?,
    }
    match view.exit() {
        Exit::Ok => view.withheld().map_or(Ok(()), Err),
        exit => Err(CliError::Silent(exit)),
    }
}

/// Waits until a job ends or `timeout` has passed. Returns the last answer. `report` prints what is new in each answer.
pub fn last_answer<T: Awaited>(
    client: &Client,
    output: Output,
    doing: &str,
    wait: impl Fn(Seconds) -> Result<Answer<T>, Error>,
    mut report: impl FnMut(&T),
    timeout: Option<Seconds>,
) -> Result<Answer<T>, CliError> {
    let slice_ms = if output.is_live() {
        SLICE_LIVE_MS
    } else {
        SLICE_MS
    };
    let spinner = Spinner::new(output, doing);
    let time = TimeLeft::new(timeout);
    let mut away = Outage::default();
    loop {
        let asked = Seconds {
            ms: slice_ms.min(time.left_ms()),
        };
        let began_ms = time.passed_ms();
        let pause_ms = match wait(asked).map_err(cannot(doing)) {
            Ok(answer) => {
                away = Outage::default();
                spinner.above(|| report(&answer.view));
                let early_ms = (began_ms + asked.ms).saturating_sub(time.passed_ms());
                let pause_ms = AGAIN_MS.min(early_ms);
                if answer.view.has_ended() || time.left_ms() <= pause_ms {
                    return Ok(answer);
                }
                spinner.say(&answer.view.now_at());
                pause_ms
            }
            Err(error) => {
                let is_away = error.exit() == Exit::Unreachable;
                let patience_ms = time.left_ms().min(away.left_ms(began_ms));
                if !is_away || patience_ms == 0 {
                    return Err(error);
                }
                if away.pauses == 0 {
                    output.note(&if client.was_answering() {
                        "the host no longer answers; retrying".to_owned()
                    } else {
                        format!("no host answers at {}; retrying", client.address())
                    });
                }
                away.next_pause_ms(time.passed_ms()).min(patience_ms)
            }
        };
        pause(pause_ms);
    }
}

/// The remaining time of a wait.
struct TimeLeft {
    began: Instant,
    total_ms: u64,
}

impl TimeLeft {
    fn new(timeout: Option<Seconds>) -> Self {
        Self {
            began: now(),
            total_ms: timeout.map_or(u64::MAX, |timeout| timeout.ms),
        }
    }

    fn passed_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn left_ms(&self) -> u64 {
        self.total_ms.saturating_sub(self.passed_ms())
    }
}

/// How long a host has been unreachable.
#[derive(Default)]
struct Outage {
    pauses: u32,
    since_ms: Option<u64>,
}

impl Outage {
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

/// Returns the time now, to measure how long a command waits.
#[expect(clippy::disallowed_methods, reason = "a command measures its own wait")]
pub fn now() -> Instant {
    Instant::now()
}

/// Waits before the next request.
#[expect(
    clippy::disallowed_methods,
    reason = "a pause between two requests, not a wait for a condition of this process"
)]
pub fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}
