//! `host batch`: jobs that are counted together, with callbacks for their end.

use super::job::filter::Filter;
use super::job::many::Caution;
use super::job::{purge, retry};
use super::notify::NotifyArgs;
use crate::complete;
use clap::{Args, Subcommand};
use host_api::batch::{BatchView, NewBatchBody};
use host_api::client::{Client, Item};
use host_api::new_job::NewJobBody;
use host_console::error::{CliError, Exit, cannot, cannot_find};
use host_console::options::Remote;
use host_console::output::put_line;
use host_console::table::{Cell, Column, Rows};
use host_console::{human, json, plain};
use host_core::json::words;
use host_core::seconds::Seconds;
use serde_json::value::{RawValue, to_raw_value};

/// Make, fill, close, cancel, retry, purge, list and show batches of jobs.
#[derive(Debug, Args)]
pub(crate) struct Batch {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make a batch of jobs and print its id
    #[command(after_help = "\
Examples:
  host batch new '[{\"handler\": \"resize\", \"params\": 1}, {\"handler\": \"resize\", \"params\": 2}]' --on-success publish
  host batch new @jobs.json --on-end '{\"handler\": \"report\", \"queue\": \"nightly\"}'
  id=$(host batch new --open --name 'invoices of May' --on-end report)")]
    New(Box<New>),
    /// Add jobs to an open batch
    #[command(
        after_help = "Example:\n  host batch add 01990f3c-1a2b-7c3d-8e4f-5a6b7c8d9e0f @more.json"
    )]
    Add(Add),
    /// Close a batch: no more jobs can be added, and its callbacks follow when its jobs have ended
    #[command(after_help = "Example:\n  host batch close 01990f3c-1a2b-7c3d-8e4f-5a6b7c8d9e0f")]
    Close(BatchArgs),
    /// Close a batch and cancel its jobs
    #[command(
        after_help = "Example:\n  host batch cancel 01990f3c-1a2b-7c3d-8e4f-5a6b7c8d9e0f --reason 'wrong input'"
    )]
    Cancel(Cancel),
    /// Run the discarded jobs of a batch again
    #[command(after_help = "\
A batch that has ended stays so: its callbacks are not enqueued again.

Example:
  host batch retry 01990f3c-1a2b-7c3d-8e4f-5a6b7c8d9e0f --dry-run")]
    Retry(Change),
    /// Forget the jobs of a batch that have ended
    #[command(
        after_help = "Example:\n  host batch purge 01990f3c-1a2b-7c3d-8e4f-5a6b7c8d9e0f --yes"
    )]
    Purge(Change),
    /// List the batches, newest first
    #[command(after_help = "Example:\n  host batch ls -o json")]
    Ls(Remote),
    /// Show a batch: how its jobs ended, and what became of its callbacks
    #[command(after_help = "Example:\n  host batch show 01990f3c-1a2b-7c3d-8e4f-5a6b7c8d9e0f")]
    Show(BatchArgs),
}

#[derive(Debug, Args)]
struct New {
    /// The jobs: a JSON array, @FILE, or - for standard input
    #[arg(value_name = "JOBS")]
    jobs: Option<String>,
    /// What to call the batch
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Enqueue this when all jobs have completed: a handler, or a job as JSON
    #[arg(long, value_name = "JOB", value_parser = callback)]
    on_success: Option<NewJobBody>,
    /// Enqueue this when all jobs have ended
    #[arg(long, value_name = "JOB", value_parser = callback)]
    on_end: Option<NewJobBody>,
    /// Enqueue this when the first job is discarded
    #[arg(long, value_name = "JOB", value_parser = callback)]
    on_first_failure: Option<NewJobBody>,
    #[command(flatten)]
    notify: NotifyArgs,
    /// Let jobs be added until `host batch close`, for at most 7 days
    #[arg(long)]
    open: bool,
    /// Keep the batch this long after it has ended [default: 7d]
    #[arg(long, value_name = "DURATION", value_parser = human::parse_duration)]
    retention: Option<Seconds>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Args)]
struct Add {
    /// The batch's id
    #[arg(add = complete::batches())]
    id: String,
    /// The jobs: a JSON array, @FILE, or - for standard input
    #[arg(value_name = "JOBS")]
    jobs: String,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Args)]
struct Cancel {
    /// A reason that its jobs show
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    named: BatchArgs,
}

#[derive(Debug, Args)]
struct Change {
    #[command(flatten)]
    caution: Caution,
    #[command(flatten)]
    named: BatchArgs,
}

#[derive(Debug, Args)]
struct BatchArgs {
    /// The batch's id
    #[arg(add = complete::batches())]
    id: String,
    #[command(flatten)]
    remote: Remote,
}

/// How many jobs one request may have.
const JOBS_AT_ONCE: usize = 1_000;

/// What helps if the host does not know a batch.
const LISTED: &str = "`host batch ls` lists the batches";

/// Reads a callback: the name of a handler, or a job.
fn callback(text: &str) -> Result<NewJobBody, String> {
    if text.starts_with('{') {
        return serde_json::from_str(text)
            .map_err(|error| format!("invalid job: {}", words::of(&error)));
    }
    Ok(NewJobBody {
        handler: text.to_owned(),
        ..NewJobBody::default()
    })
}

/// Reads the jobs that an argument has.
fn jobs(given: &str) -> Result<Vec<Box<RawValue>>, CliError> {
    let text = json::argument("JOBS", given)?;
    serde_json::from_str(text.get()).map_err(|_| {
        CliError::new(Exit::Usage, "read JOBS", "it is not an array")
            .next("write the jobs as a JSON array: '[{\"handler\": \"NAME\"}]'")
    })
}

impl Batch {
    /// Runs the verb.
    pub(crate) fn run(self) -> Result<(), CliError> {
        match self.verb {
            Verb::New(new) => self::new(*new),
            Verb::Add(add) => self::add(&add),
            Verb::Close(named) => close(&named),
            Verb::Cancel(cancel) => self::cancel(cancel),
            Verb::Retry(Change { caution, named }) => {
                check(&named, "retry")?;
                retry::matching(&named.remote, Filter::by_batch(&named.id), &caution)
            }
            Verb::Purge(Change { caution, named }) => {
                check(&named, "purge")?;
                purge::matching(&named.remote, Filter::by_batch(&named.id), &caution)
            }
            Verb::Ls(remote) => ls(&remote),
            Verb::Show(named) => show(&named),
        }
    }
}

fn new(new: New) -> Result<(), CliError> {
    let jobs = new
        .jobs
        .as_deref()
        .map(jobs)
        .transpose()?
        .unwrap_or_default();
    let (client, output) = new.remote.open()?;
    let doing = "create a batch";
    let (first, rest) = jobs.split_at(jobs.len().min(JOBS_AT_ONCE));
    let body = NewBatchBody {
        name: new.name,
        jobs: (!first.is_empty())
            .then(|| to_raw_value(first))
            .transpose()
            .map_err(|error| CliError::new(Exit::Failed, doing, error))?,
        on_success: new.on_success,
        on_end: new.on_end,
        on_first_failure: new.on_first_failure,
        notify: new.notify.body(),
        open: new.open || !rest.is_empty(),
        retention_seconds: new.retention,
    };
    let answer = client.new_batch(&body).map_err(cannot(doing))?;
    let id = plain::line(&answer.view.batch.id).into_owned();
    add_all(&client, &id, rest)?;
    if !rest.is_empty() && !new.open {
        let doing = format!("close the batch {id}");
        client.close_batch(&id).map_err(cannot(&doing))?;
    }
    output.print_item(&answer.json, &id, || put_line(&id))?;
    output.hint(&if new.open {
        format!("`host batch add {id} JOBS` adds jobs, `host batch close {id}` closes it")
    } else {
        format!("`host batch show {id}` shows how its jobs end")
    });
    Ok(())
}

/// Adds jobs to a batch, in as many requests as it takes.
fn add_all(client: &Client, id: &str, jobs: &[Box<RawValue>]) -> Result<(), CliError> {
    let mut added = 0;
    for slice in jobs.chunks(JOBS_AT_ONCE) {
        let doing = format!(
            "add jobs to the batch {}, after {added} of them were added",
            plain::line(id)
        );
        let answer = client.add_to_batch(id, &slice);
        answer.map_err(cannot_find(&doing, LISTED))?;
        added += slice.len();
    }
    Ok(())
}

fn add(add: &Add) -> Result<(), CliError> {
    let jobs = jobs(&add.jobs)?;
    let (client, output) = add.remote.open()?;
    add_all(&client, &add.id, &jobs)?;
    let id = plain::line(&add.id);
    let doing = format!("show the batch {id}");
    let answer = client.batch(&add.id).map_err(cannot(&doing))?;
    output.print_item(&answer.json, &id, || {
        put_line(&format!(
            "{id} has {}",
            human::counted(answer.view.counts.jobs, "job")
        ))
    })
}

/// The state of a batch whose jobs have all ended.
const ENDED: &str = "ended";

/// Refuses a batch that does not exist.
fn check(named: &BatchArgs, verb: &str) -> Result<(), CliError> {
    let (client, _) = named.remote.open()?;
    let doing = format!("{verb} the jobs of the batch {}", plain::line(&named.id));
    let found = client.batch(&named.id);
    found.map(drop).map_err(cannot_find(&doing, LISTED))
}

fn close(named: &BatchArgs) -> Result<(), CliError> {
    let (client, output) = named.remote.open()?;
    let id = plain::line(&named.id);
    let doing = format!("close the batch {id}");
    let answer = client
        .close_batch(&named.id)
        .map_err(cannot_find(&doing, LISTED))?;
    output.print_item(&answer.json, &id, || {
        put_line(&match answer.view.state.as_str() {
            ENDED => format!("{id} has ended"),
            state => format!("{id} is {}", plain::line(state)),
        })
    })
}

fn cancel(cancel: Cancel) -> Result<(), CliError> {
    let (client, output) = cancel.named.remote.open()?;
    let id = plain::line(&cancel.named.id);
    let doing = format!("cancel the batch {id}");
    let answer = client
        .cancel_batch(&cancel.named.id, cancel.reason)
        .map_err(cannot_find(&doing, LISTED))?;
    output.print_item(&answer.json, &id, || {
        put_line(&match answer.view.state.as_str() {
            ENDED => format!("{id} has ended"),
            _ => format!("the jobs of {id} are being cancelled"),
        })
    })
}

fn ls(remote: &Remote) -> Result<(), CliError> {
    let (client, output) = remote.open()?;
    let batches = client.batches().map_err(cannot("list batches"))?.items;
    output.list(&batches, |it| &it.id, || table(&batches))?;
    output.hint(if batches.is_empty() {
        "there are no batches; `host batch new @jobs.json --on-end HANDLER` makes one"
    } else {
        "`host batch show ID` shows the callbacks of one, `host job ls --batch ID` its jobs"
    });
    Ok(())
}

fn table(batches: &[Item<BatchView>]) -> Rows {
    let mut rows = Rows::new(&[
        Column::Left("ID"),
        Column::Left("NAME"),
        Column::Left("STATE"),
        Column::Right("JOBS"),
        Column::Right("LEFT"),
        Column::Right("FAILED"),
    ]);
    for Item { view, .. } in batches {
        let counts = view.counts;
        let numbers = [counts.jobs, counts.not_ended, counts.discarded];
        let name = view.name.as_deref().unwrap_or_default();
        let texts = [&view.id, name, &view.state].map(|text| Cell::new(plain::line(text)));
        let numbers = numbers.map(|number| Cell::new(human::count(number)));
        rows.row(texts.into_iter().chain(numbers).collect());
    }
    rows
}

fn show(named: &BatchArgs) -> Result<(), CliError> {
    let (client, output) = named.remote.open()?;
    let id = plain::line(&named.id);
    let doing = format!("show the batch {id}");
    let answer = client
        .batch(&named.id)
        .map_err(cannot_find(&doing, LISTED))?;
    let view = &answer.view;
    output.print_item(&answer.json, &id, || {
        let mut rows = Rows::pairs();
        let optional = |text: &Option<String>| text.clone().unwrap_or_default();
        let count = human::count;
        let mut lines = vec![
            ("id", view.id.clone()),
            ("name", optional(&view.name)),
            ("state", view.state.clone()),
            ("waits because", optional(&view.waits_because)),
            ("jobs", count(view.counts.jobs)),
            ("not ended", count(view.counts.not_ended)),
            ("completed", count(view.counts.completed)),
            ("discarded", count(view.counts.discarded)),
            ("cancelled", count(view.counts.cancelled)),
            ("created", view.created_at.clone()),
            ("created by", optional(&view.created_by)),
            ("closes", optional(&view.closes_at)),
            ("cancel asked", optional(&view.cancel_requested_at)),
            ("cancel reason", optional(&view.cancel_reason)),
            ("ended", optional(&view.ended_at)),
            ("kept until", optional(&view.kept_until)),
        ];
        for callback in &view.callbacks {
            let job = if callback.enqueued {
                format!("{}: job {}", callback.handler, callback.job)
            } else {
                format!("{}: not enqueued", callback.handler)
            };
            let on = match callback.on.as_str() {
                "on_first_failure" => "on first failure",
                "on_success" => "on success",
                _ => "on end",
            };
            lines.push((on, job));
        }
        for (key, value) in lines.iter().filter(|(_, value)| !value.is_empty()) {
            rows.pair(key, &plain::line(value));
        }
        output.rows(rows)
    })?;
    output.hint(&format!("`host job ls --batch {id}` lists its jobs"));
    Ok(())
}
