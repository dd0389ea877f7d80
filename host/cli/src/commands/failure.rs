//! `host failure`: why jobs were discarded, those with the same cause together.

use clap::{Args, Subcommand};
use host_api::cause::{CauseView, CausesQuery, CausesView};
use host_api::client::Client;
use host_console::error::{CliError, Exit, cannot};
use host_console::options::Remote;
use host_console::output::{Format, put_line};
use host_console::table::{Cell, Column, Rows};
use host_console::{human, plain};

use super::job::filter::Filter;
use super::job::many::Caution;
use super::job::retry;
use super::moment::{self, Moment};
use crate::complete;

/// List, show and retry discarded jobs by their cause.
#[derive(Debug, Args)]
pub(crate) struct Failure {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List why jobs were discarded, the causes with the most jobs first
    #[command(after_help = "\
Failures of a handler with the same kind and the same message, whatever the numbers, ids and quotations in
it, have one cause. The newest 5,000 discarded jobs are examined.

Examples:
  host failure ls
  host failure ls --handler report --since 1d")]
    Ls(Ls),
    /// Show one cause: how many jobs, since when, and an example
    #[command(after_help = "Example:\n  host failure show 3f9a0c21b7de")]
    Show(Cause),
    /// Run the discarded jobs of one cause again
    #[command(after_help = "\
Examples:
  host failure retry 3f9a0c21b7de --dry-run
  host failure retry 3f9a0c21b7de --yes")]
    Retry(Retry),
}

#[derive(Debug, Args)]
struct Ls {
    /// Only jobs in this queue
    #[arg(long)]
    #[arg(add = complete::queues())]
    queue: Option<String>,
    /// Only jobs for this handler; * matches any characters
    #[arg(long)]
    #[arg(add = complete::handlers())]
    handler: Option<String>,
    /// Only jobs enqueued since this time, or within this duration
    #[arg(long, value_name = "TIME|DURATION", value_parser = moment::parse)]
    since: Option<Moment>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Args)]
struct Cause {
    /// The fingerprint of the cause, from `host failure ls`
    #[arg(add = complete::causes())]
    fingerprint: String,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Args)]
struct Retry {
    #[command(flatten)]
    caution: Caution,
    #[command(flatten)]
    cause: Cause,
}

impl Failure {
    /// Runs the verb.
    pub(crate) fn run(self) -> Result<(), CliError> {
        match self.verb {
            Verb::Ls(ls) => self::ls(ls),
            Verb::Show(cause) => show(&cause),
            Verb::Retry(Retry { caution, cause }) => retry_jobs(&cause, &caution),
        }
    }
}

fn ls(ls: Ls) -> Result<(), CliError> {
    let (client, output) = ls.remote.open()?;
    let [since] = moment::texts([&ls.since], &client)?;
    let query = CausesQuery {
        queue: ls.queue,
        handler: ls.handler,
        since,
        fingerprint: None,
    };
    let answer = client.causes(&query).map_err(cannot("list failures"))?;
    let CausesView {
        items,
        examined,
        complete,
    } = &answer.view;
    match output.format() {
        Format::Json | Format::Jsonl => output.json(&answer.json)?,
        Format::Name => items
            .iter()
            .try_for_each(|cause| put_line(&plain::line(&cause.fingerprint)))?,
        Format::Table if items.is_empty() => {}
        Format::Table => {
            let mut rows = Rows::new(&[
                Column::Left("CAUSE"),
                Column::Right("JOBS"),
                Column::Right("LAST"),
                Column::Left("HANDLER"),
                Column::Left("FAILURE"),
                Column::Left("MESSAGE"),
            ]);
            for cause in items {
                rows.row(vec![
                    Cell::new(plain::line(&cause.fingerprint)),
                    Cell::new(human::count(cause.jobs)),
                    Cell::new(human::ago(answer.now, Some(&cause.last_at))),
                    Cell::new(plain::line(&cause.handler)),
                    Cell::new(plain::line(name(cause))),
                    Cell::new(plain::line(&cause.pattern)),
                ]);
            }
            output.rows(rows)?;
        }
    }
    if !complete {
        let examined = human::count(*examined);
        output.note(&format!(
            "only the newest {examined} discarded jobs were examined"
        ));
    }
    output.hint(if items.is_empty() {
        "no job was discarded"
    } else {
        "`host failure show CAUSE` shows one, `host failure retry CAUSE` runs its jobs again"
    });
    Ok(())
}

/// Returns the handler's own name for the error, else the kind of failure.
fn name(cause: &CauseView) -> &str {
    cause.user_kind.as_deref().unwrap_or(&cause.kind)
}

/// Reads what is known of a cause.
fn read(client: &Client, cause: &Cause, doing: &str) -> Result<CausesView, CliError> {
    let query = CausesQuery {
        fingerprint: Some(cause.fingerprint.clone()),
        ..CausesQuery::default()
    };
    let answer = client.causes(&query).map_err(cannot(doing))?;
    Ok(answer.view)
}

fn not_found(doing: &str) -> CliError {
    let flaw = "no discarded job failed for this cause";
    CliError::new(Exit::NotFound, doing, flaw).next("`host failure ls` lists the causes")
}

fn retry_jobs(cause: &Cause, caution: &Caution) -> Result<(), CliError> {
    let doing = format!("retry failure {}", plain::line(&cause.fingerprint));
    let (client, _) = cause.remote.open()?;
    let found = read(&client, cause, &doing)?;
    // Older jobs are examined when they are retried.
    if found.items.is_empty() && found.complete {
        return Err(not_found(&doing));
    }
    let filter = Filter::by_fingerprint(&cause.fingerprint);
    retry::matching(&cause.remote, filter, caution)
}

fn show(cause: &Cause) -> Result<(), CliError> {
    let (client, output) = cause.remote.open()?;
    let fingerprint = plain::line(&cause.fingerprint);
    let doing = format!("show failure {fingerprint}");
    let found = read(&client, cause, &doing)?;
    let view = found.items.first().ok_or_else(|| not_found(&doing))?;
    let document =
        serde_json::to_string(view).map_err(|error| CliError::new(Exit::Failed, &doing, error))?;
    output.print_item(&document, &fingerprint, || {
        let mut rows = Rows::pairs();
        for (key, value) in [
            ("cause", view.fingerprint.as_str()),
            ("handler", &view.handler),
            ("failure", name(view)),
            ("message", &view.pattern),
            ("jobs", &human::count(view.jobs)),
            ("first at", &view.first_at),
            ("last at", &view.last_at),
            ("example", &view.example),
        ] {
            rows.pair(key, &plain::line(value));
        }
        output.rows(rows)
    })?;
    output.hint(&format!(
        "`host job show {}` shows the newest; `host job ls --fingerprint {fingerprint}` lists all",
        plain::line(&view.example)
    ));
    Ok(())
}
