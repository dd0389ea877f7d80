//! `host job wait`: waits until a job ends, then prints its result and how it went.

use std::fmt::Write as _;

use clap::Args;
use host_api::client::{Answer, Client};
use host_console::error::{CliError, Exit};
use host_console::interrupt::Farewell;
use host_console::options::Remote;
use host_console::output::{Output, put_line};
use host_console::waiting::{self, Awaited};
use host_console::{human, plain};
use host_core::job::State;
use host_core::seconds::Seconds;

use super::{View, failure_line, failure_text, parse_id, progress_line, short_id};
use crate::complete;

/// How long one request waits before the failed attempts are fetched.
const POLL: Seconds = Seconds { ms: 1_000 };

/// Wait until a job ends and print its result.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host job wait 01990f3c --timeout 5m
  host job wait 01990f3c -o json | jq .result

The wait survives a restart of the host for up to five minutes, even if it begins during one.

Exit codes: 0 completed, 3 discarded, 4 cancelled, 6 the host does not answer, 7 the wait timed out.")]
pub(super) struct Wait {
    /// The job's id or a prefix of it
    #[arg(value_parser = parse_id)]
    #[arg(add = complete::jobs())]
    id: String,
    /// Stop waiting after this long; the job continues
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
pub(crate) fn until_end(
    client: &Client,
    output: Output,
    id: &str,
    timeout: Option<Seconds>,
) -> Result<(), CliError> {
    let is_human = output.is_human();
    let wait = |timeout: Seconds| {
        let most_ms = if is_human { POLL.ms } else { u64::MAX };
        let ms = timeout.ms.min(most_ms);
        Ok(client.wait_for_job(id, Seconds { ms })?.map(View))
    };
    let _farewell = Farewell::say(output, continues(id));
    let mut failures = Failures::new(client, output);
    let report = |job: &View| failures.print_new(job);
    waiting::until_end(client, output, &doing(id), wait, report, timeout)
}

/// Waits until a job ends or `timeout` has passed and returns how it is then.
pub(super) fn last_answer(
    client: &Client,
    output: Output,
    id: &str,
    timeout: Option<Seconds>,
) -> Result<Answer<View>, CliError> {
    let wait = |timeout| Ok(client.wait_for_job(id, timeout)?.map(View));
    waiting::last_answer(client, output, &doing(id), wait, |_| {}, timeout)
}

/// Prints attempts that failed while the job runs again. The end of the job says why the last one failed.
struct Failures<'a> {
    client: &'a Client,
    output: Output,
    /// The number of the last attempt that was looked at.
    seen: u32,
}

impl<'a> Failures<'a> {
    fn new(client: &'a Client, output: Output) -> Self {
        Self {
            client,
            output,
            seen: 0,
        }
    }

    fn print_new(&mut self, job: &View) {
        let has_another = job.is_terminal() || job.state == State::Running.as_str();
        let failed = job.attempt.saturating_sub(u32::from(has_another));
        if failed <= self.seen || !self.output.is_human() {
            return;
        }
        // They are still there at the next answer.
        let Ok(listing) = self.client.attempts(&job.id) else {
            return;
        };
        let seen = std::mem::replace(&mut self.seen, failed);
        let attempts = listing.items.iter().map(|item| &item.view);
        for attempt in attempts.filter(|it| it.number > seen && it.number <= failed) {
            if let Some(failure) = &attempt.failure {
                let text = failure_text(failure);
                self.output
                    .note(&format!("attempt {} failed: {text}", attempt.number));
            }
        }
    }
}

/// Says that a job does not end with the command that waits for it.
fn continues(id: &str) -> String {
    let id = short_id(id);
    format!("the job continues; `host job wait {id}` waits again, `host job cancel {id}` stops it")
}

fn doing(id: &str) -> String {
    format!("wait for job {}", plain::line(id))
}

impl View {
    /// Returns how the job ended, how long it took and why it failed, on one line.
    pub(super) fn ending(&self) -> String {
        let mut end = plain::line(&self.state).into_owned();
        let (waited, ran) = self.times();
        if ran.is_empty() {
            let _ = write!(end, " after it waited {waited}");
        } else {
            let _ = write!(end, ", waited {waited}, ran {ran}");
        }
        let _ = write!(end, ", attempt {}", self.attempts());
        if let Some(failure) = &self.failure {
            let _ = write!(end, ": {}", failure_line(failure));
        }
        end
    }
}

impl Awaited for View {
    fn has_ended(&self) -> bool {
        self.is_terminal()
    }

    fn now_at(&self) -> String {
        let state = plain::line(&self.state);
        let name = plain::line(&self.handler);
        match &self.progress {
            Some(progress) => format!("{name} is {state}: {}", progress_line(progress)),
            None => format!("{name} is {state}, attempt {}", self.attempts()),
        }
    }

    fn id(&self) -> &str {
        &self.id
    }

    fn print(&self, _output: Output) -> Result<(), CliError> {
        match &self.result {
            Some(result) => put_line(&host_api::pretty::json(result.get())),
            None => Ok(()),
        }
    }

    fn note_end(&self, output: Output) {
        output.ending(&self.ending(), self.exit() != Exit::Ok);
        let id = short_id(&self.id);
        if self.exit() == Exit::JobFailed {
            output.hint(&format!(
                "`host job show {id}` and `host job logs {id}` show why; `host job retry {id}` runs it \
                 again"
            ));
        }
    }

    fn exit(&self) -> Exit {
        match self.state.as_str() {
            "completed" => Exit::Ok,
            "cancelled" => Exit::Cancelled,
            "discarded" => Exit::JobFailed,
            _ => Exit::WaitRanOut,
        }
    }

    fn withheld(&self) -> Option<CliError> {
        let is_withheld = self.withheld.iter().any(|part| part == "result");
        is_withheld.then(|| {
            let doing = format!("show the result of job {}", short_id(&self.id));
            CliError::new(Exit::Failed, doing, "it is withheld from this token").next(
                "it needs the verb read_payload, or read_own for jobs that it enqueues itself: `host token create`",
            )
        })
    }

    fn ran_out(&self, timeout: Option<Seconds>) -> CliError {
        let id = short_id(&self.id);
        CliError::new(
            Exit::WaitRanOut,
            format!("wait for job {id}"),
            format!(
                "it is still {} after {}",
                plain::line(&self.state),
                human::took(timeout.map_or(0, |timeout| timeout.ms))
            ),
        )
        .next(continues(&self.id))
    }
}
