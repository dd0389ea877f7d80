//! `host job`: what its verbs share: the job as the API shows it, its short id and its summary.

mod cancel;
mod enqueue;
mod filter;
mod logs;
mod ls;
mod many;
mod purge;
mod reschedule;
mod retry;
mod set_priority;
mod show;
pub(crate) mod trial;
mod wait;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::{Args, Subcommand};
use host_console::client::{Answer, Client, segment};
use host_console::error::{CliError, Exit};
use host_console::{human, plain};
use host_core::job::State;
use host_core::time::Time;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::node::NodeView;

/// Enqueue, show, cancel and retry jobs.
#[derive(Debug, Args)]
pub(crate) struct Job {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Enqueue a job for a handler
    Enqueue(enqueue::Enqueue),
    /// List jobs, the newest first
    Ls(ls::Ls),
    /// Show everything about a job
    Show(show::Show),
    /// Wait until a job ends and print its result
    Wait(wait::Wait),
    /// Stop jobs
    Cancel(cancel::Cancel),
    /// Run discarded or cancelled jobs again
    Retry(retry::Retry),
    /// Forget jobs that have ended
    Purge(purge::Purge),
    /// Give jobs another priority
    SetPriority(set_priority::SetPriority),
    /// Move the start of jobs that wait
    Reschedule(reschedule::Reschedule),
    /// Print the log of a job
    Logs(logs::Logs),
}

impl Job {
    /// Runs the verb.
    pub(crate) fn run(self) -> Result<(), CliError> {
        match self.verb {
            Verb::Enqueue(enqueue) => enqueue.run(),
            Verb::Ls(ls) => ls.run(),
            Verb::Show(show) => show.run(),
            Verb::Wait(wait) => wait.run(),
            Verb::Cancel(cancel) => cancel.run(),
            Verb::Retry(retry) => retry.run(),
            Verb::Purge(purge) => purge.run(),
            Verb::SetPriority(set_priority) => set_priority.run(),
            Verb::Reschedule(reschedule) => reschedule.run(),
            Verb::Logs(logs) => logs.run(),
        }
    }
}

/// A job as the API shows it: the fields that commands print.
#[derive(Debug, Deserialize)]
struct View {
    id: String,
    state: String,
    handler: String,
    queue: String,
    priority: u8,
    #[serde(default)]
    attempt: u32,
    max_attempts: Option<u32>,
    attempts_charged: Option<u32>,
    #[serde(default)]
    attempts_lost: u32,
    #[serde(default)]
    waited_ms: u64,
    #[serde(default)]
    ran_ms: u64,
    node: Option<NodeView>,
    #[serde(default)]
    wire: String,
    external_id: Option<String>,
    enqueued_at: Option<String>,
    run_at: Option<String>,
    finished_at: Option<String>,
    kept_until: Option<String>,
    deadline: Option<String>,
    cancel_requested_at: Option<String>,
    waits_because: Option<String>,
    unique_key: Option<String>,
    #[serde(default)]
    depends_on: Vec<String>,
    #[serde(default)]
    attributes: BTreeMap<String, String>,
    progress: Option<ProgressView>,
    params: Option<Box<RawValue>>,
    result: Option<Box<RawValue>>,
    failure: Option<FailureView>,
}

/// The progress that a job reports.
#[derive(Debug, Deserialize)]
struct ProgressView {
    percent: Option<f32>,
    #[serde(default)]
    message: String,
}

/// Why an attempt did not complete.
#[derive(Debug, Deserialize)]
struct FailureView {
    kind: String,
    #[serde(default)]
    message: String,
    category: Option<String>,
    user_kind: Option<String>,
    code: Option<String>,
    details: Option<Box<RawValue>>,
    stack: Option<String>,
}

/// An attempt as the API shows it.
#[derive(Debug, Deserialize)]
struct AttemptView {
    number: u32,
    #[serde(default)]
    executor: String,
    started_at: Option<String>,
    finished_at: Option<String>,
    #[serde(default)]
    outcome: String,
    failure: Option<FailureView>,
    #[serde(default)]
    fuel: u64,
    #[serde(default)]
    cpu_ms: f64,
    #[serde(default)]
    peak_memory_bytes: u64,
}

impl View {
    /// Tells whether the job has ended.
    fn is_terminal(&self) -> bool {
        has_ended(&self.state)
    }

    /// Returns what the process exits with when this job was waited for.
    fn exit(&self) -> Exit {
        match self.state.as_str() {
            "completed" => Exit::Ok,
            "cancelled" => Exit::Cancelled,
            "discarded" => Exit::JobFailed,
            _ => Exit::WaitRanOut,
        }
    }

    /// Returns how many attempts count, how many may, and what became of the others: `1/5 (+1 lost)`.
    fn attempts(&self) -> String {
        let charged = self.attempts_charged.unwrap_or(self.attempt);
        let earlier = self.attempt.saturating_sub(charged + self.attempts_lost);
        let mut text = match self.max_attempts {
            Some(max) => format!("{charged}/{max}"),
            None => charged.to_string(),
        };
        for (attempts, what) in [(self.attempts_lost, "lost"), (earlier, "before a retry")] {
            if attempts > 0 {
                let _infallible = write!(text, " (+{attempts} {what})");
            }
        }
        text
    }

    /// Returns how long it waited and how long its attempts took; the latter is empty before the
    /// first.
    fn times(&self) -> (String, String) {
        let ran = match self.attempt {
            0 => String::new(),
            _ => human::took(self.ran_ms),
        };
        (human::took(self.waited_ms), ran)
    }
}

/// Tells whether a job in this state has ended.
fn has_ended(state: &str) -> bool {
    State::from_name(state).is_some_and(State::is_terminal)
}

impl ProgressView {
    fn line(&self) -> String {
        let message = plain::line(&self.message);
        match self.percent {
            Some(percent) if message.is_empty() => format!("{percent:.0} %"),
            Some(percent) => format!("{percent:.0} % {message}"),
            None => message.into_owned(),
        }
    }
}

impl FailureView {
    /// Returns the kind, with the handler's own name for the error if it has one.
    fn name(&self) -> String {
        let kind = plain::line(&self.kind);
        match self.user_kind.as_deref().filter(|name| !name.is_empty()) {
            Some(name) => format!("{kind} ({})", plain::line(name)),
            None => kind.into_owned(),
        }
    }

    /// Returns the name and the message on one line.
    fn line(&self) -> String {
        let name = self.name();
        let message = plain::line(&self.message);
        if message.is_empty() {
            return name;
        }
        if message.starts_with(&format!("{name}: ")) {
            return message.into_owned();
        }
        format!("{name}: {message}")
    }
}

/// The length of a complete id.
const ID_CHARS: usize = 36;

/// Reads an id or the start of one. A word would be another path of the API.
fn parse_id(text: &str) -> Result<String, String> {
    let is_start = |c: char| c.is_ascii_hexdigit() || c == '-';
    if text.is_empty() || text.len() > ID_CHARS || !text.chars().all(is_start) {
        return Err(
            "the id of a job, or the start of one, has only hexadecimal digits and dashes, such as \
             01990f3c-1a2b; `host job ls` lists the jobs"
                .to_owned(),
        );
    }
    Ok(text.to_owned())
}

/// The fewest characters of a shown id: its milliseconds.
const SHORT_ID_CHARS_MIN: usize = 13;

/// Shortens the ids of one list to their milliseconds, or further right until each differs from its
/// neighbors. Every command accepts such a prefix as the id.
fn short_ids<'a>(ids: &[&'a str]) -> Vec<Cow<'a, str>> {
    let mut sorted: Vec<_> = ids.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let shared = |a: &str, b: &str| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    ids.iter()
        .map(|id| {
            let at = sorted.partition_point(|other| other < id);
            let before = at.checked_sub(1).and_then(|at| sorted.get(at));
            let neighbors = [before, sorted.get(at + 1)];
            let needed = neighbors
                .into_iter()
                .flatten()
                .map(|other| shared(id, other) + 1);
            let chars = needed.fold(SHORT_ID_CHARS_MIN, usize::max);
            let short = id.get(..chars).unwrap_or(id);
            plain::line(short.trim_end_matches('-'))
        })
        .collect()
}

/// Shortens the id of a job that is shown alone.
fn short_id(id: &str) -> Cow<'_, str> {
    plain::line(id.get(..SHORT_ID_CHARS_MIN).unwrap_or(id))
}

/// Asks for one job.
fn fetch(client: &Client, doing: &str, id: &str) -> Result<Answer, CliError> {
    let path = format!("/api/v1/jobs/{}", segment(id));
    client
        .get(doing, &path, std::time::Duration::ZERO)
        .map_err(|error| match error.exit() {
            Exit::NotFound => {
                error.next("`host job ls` lists the jobs; one that has ended is kept for its retention, by default 7 days")
            }
            _ => error,
        })
}

/// Formats how long it took from one instant to another, empty if either is not known.
fn between(from: Option<&str>, until: Option<&str>) -> String {
    match (
        from.and_then(Time::parse_rfc3339),
        until.and_then(Time::parse_rfc3339),
    ) {
        (Some(from), Some(until)) => human::took(until.since_ms(from)),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests;
