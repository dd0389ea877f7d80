//! `host job`: what its verbs share: the job as the API shows it, its short id and its summary.

mod artifact;
mod cancel;
mod enqueue;
pub(crate) mod filter;
mod import;
mod logs;
mod ls;
pub(crate) mod many;
pub(crate) mod purge;
mod requests;
mod reschedule;
pub(crate) mod retry;
mod set_priority;
mod show;
pub(crate) mod trial;
pub(crate) mod wait;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Deref;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Subcommand};
use host_api::attempt::FailureView;
use host_api::client::{Answer, Client};
use host_api::job::{JobView, ProgressView};
use host_console::error::{CliError, cannot_find};
use host_console::{human, plain};
use host_core::id::start_of_id;
use host_core::job::{STATES, State};
use host_core::time::Time;

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
    /// Enqueue the jobs of a file, one in each line
    Import(import::Import),
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
    /// Change the priority of jobs
    SetPriority(set_priority::SetPriority),
    /// Change when waiting jobs start
    Reschedule(reschedule::Reschedule),
    /// Print the log of a job
    Logs(logs::Logs),
    /// Save a file that a job has produced
    Artifact(artifact::Artifact),
}

impl Job {
    /// Runs the verb.
    pub(crate) fn run(self) -> Result<(), CliError> {
        match self.verb {
            Verb::Enqueue(enqueue) => enqueue.run(),
            Verb::Import(import) => import.run(),
            Verb::Ls(ls) => ls.run(),
            Verb::Show(show) => show.run(),
            Verb::Wait(wait) => wait.run(),
            Verb::Cancel(cancel) => cancel.run(),
            Verb::Retry(retry) => retry.run(),
            Verb::Purge(purge) => purge.run(),
            Verb::SetPriority(set_priority) => set_priority.run(),
            Verb::Artifact(artifact) => artifact.run(),
            Verb::Reschedule(reschedule) => reschedule.run(),
            Verb::Logs(logs) => logs.run(),
        }
    }
}

/// A job as the API shows it, with what commands show of it.
#[derive(Debug)]
struct View(JobView);

impl Deref for View {
    type Target = JobView;

    fn deref(&self) -> &JobView {
        &self.0
    }
}

impl View {
    /// Tells whether the job has ended.
    fn is_terminal(&self) -> bool {
        has_ended(&self.state)
    }

    /// Returns how many attempts count, how many may, and what became of the others: `1/5 (+1 lost)`.
    fn attempts(&self) -> String {
        let charged = self.attempts_charged;
        let earlier = self.attempt.saturating_sub(charged + self.attempts_lost);
        let mut text = format!("{charged}/{}", self.max_attempts);
        for (attempts, what) in [(self.attempts_lost, "lost"), (earlier, "before a retry")] {
            if attempts > 0 {
                let _ = write!(text, " (+{attempts} {what})");
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

/// Reads the name of a state, or what else people call it.
fn states() -> PossibleValuesParser {
    let states = STATES.map(|state| PossibleValue::new(state.as_str()).aliases(state.aliases()));
    PossibleValuesParser::new(states)
}

/// Tells whether a job in this state has ended.
fn has_ended(state: &str) -> bool {
    State::from_name(state).is_some_and(State::is_terminal)
}

/// Returns how far an attempt is, on one line.
fn progress_line(progress: &ProgressView) -> String {
    let message = plain::line(&progress.message);
    match progress.percent {
        Some(percent) if message.is_empty() => format!("{percent:.0} %"),
        Some(percent) => format!("{percent:.0} % {message}"),
        None => message.into_owned(),
    }
}

/// Returns the kind of a failure, with the handler's own name for the error if it has one.
fn failure_name(failure: &FailureView) -> String {
    let kind = plain::line(&failure.kind);
    match failure.user_kind.as_deref().filter(|name| !name.is_empty()) {
        Some(name) => format!("{kind} ({})", plain::line(name)),
        None => kind.into_owned(),
    }
}

/// Returns the name and the message of a failure on one line.
fn failure_line(failure: &FailureView) -> String {
    let name = failure_name(failure);
    let message = plain::line(&failure.message);
    if message.is_empty() {
        return name;
    }
    if message.starts_with(&format!("{name}: ")) {
        return message.into_owned();
    }
    format!("{name}: {message}")
}

/// Returns all that is known of a failure, with its stack.
fn failure_text(failure: &FailureView) -> String {
    let mut text = failure_line(failure);
    let mut more = |what: &str, value: Option<&str>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let _ = write!(text, "\n{what}: {}", plain::block(value));
        }
    };
    more("category", Some(&failure.category));
    more("code", failure.code.as_deref());
    more(
        "details",
        failure.details.as_ref().map(|details| details.get()),
    );
    more("stack", failure.stack.as_deref());
    text
}

/// The length of a complete id.
const ID_CHARS: usize = 36;

/// Reads an id or the start of one. A word would be another path of the API.
fn parse_id(text: &str) -> Result<String, String> {
    start_of_id(text).ok_or_else(|| {
        "the id of a job, or the start of one, has only hexadecimal digits and dashes, such as \
         01990f3c-1a2b; `host job ls` lists the jobs"
            .to_owned()
    })
}

/// Reads a name with a value.
fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE, such as team=billing".to_owned()),
    }
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
fn fetch(client: &Client, doing: &str, id: &str) -> Result<Answer<View>, CliError> {
    let next = "`host job ls` lists the jobs; one that has ended is kept for its retention, by default 7 days";
    let answer = client.job(id).map_err(cannot_find(doing, next))?;
    Ok(answer.map(View))
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
