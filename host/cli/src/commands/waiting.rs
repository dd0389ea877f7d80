//! Waiting in slices for what the API has a `wait` of, also while its host is started again. Knows
//! nothing of what is waited for.

use std::time::Duration;

use host_core::seconds::Seconds;
use host_runtime::clock::Clock;
use serde::de::DeserializeOwned;

use crate::client::{Answer, Client};
use crate::error::{CliError, Exit};
use crate::output::{Format, Output, put_line};
use crate::plain;
use crate::progress::Spinner;

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

/// What can be waited for.
pub(super) trait Awaited: DeserializeOwned {
    /// Tells whether it has ended.
    fn has_ended(&self) -> bool;

    /// Returns what it is at, for people.
    fn now_at(&self) -> String;

    /// Returns its id.
    fn id(&self) -> &str;

    /// Prints what it returned and how it went.
    fn print(&self, output: Output) -> Result<(), CliError>;

    /// Returns how the program ends for its end.
    fn exit(&self) -> Exit;

    /// Says that it has not ended within `timeout`.
    fn ran_out(&self, timeout: Option<Seconds>) -> CliError;
}

/// Waits at `path` until something ends, prints what it returned and fails if it has not ended well.
pub(super) fn until_end<T: Awaited>(
    client: &Client,
    output: Output,
    doing: &str,
    path: &str,
    timeout: Option<Seconds>,
) -> Result<(), CliError> {
    let (answer, view): (_, T) = ended(client, output, doing, path, timeout)?;
    if !view.has_ended() {
        return Err(view.ran_out(timeout));
    }
    match output.format() {
        Format::Table => view.print(output)?,
        Format::Name => put_line(&plain::line(view.id()))?,
        Format::Json | Format::Jsonl => output.json(&answer.body)?,
    }
    match view.exit() {
        Exit::Ok => Ok(()),
        exit => Err(CliError::Silent(exit)),
    }
}

/// Waits at `path` until something ends or `timeout` has passed, and returns how it is then.
pub(super) fn ended<T: Awaited>(
    client: &Client,
    output: Output,
    doing: &str,
    path: &str,
    timeout: Option<Seconds>,
) -> Result<(Answer, T), CliError> {
    let slice_ms = if output.is_live() {
        SLICE_LIVE_MS
    } else {
        SLICE_MS
    };
    let spinner = Spinner::new(output, doing);
    let time = Left::new(timeout);
    let mut away = Away::default();
    loop {
        let asked = Seconds {
            ms: slice_ms.min(time.left_ms()),
        };
        let path = format!("{path}?timeout_seconds={}", f64::from(asked));
        let began_ms = time.passed_ms();
        let pause_ms = match client.get(doing, &path, Duration::from_millis(asked.ms)) {
            Ok(answer) => {
                let view: T = answer.read(doing)?;
                away = Away::default();
                let early_ms = (began_ms + asked.ms).saturating_sub(time.passed_ms());
                let pause_ms = AGAIN_MS.min(early_ms);
                if view.has_ended() || time.left_ms() <= pause_ms {
                    return Ok((answer, view));
                }
                spinner.say(&view.now_at());
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
