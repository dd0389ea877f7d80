//! `host queue`: how many jobs each queue has in each state; pausing, resuming and limiting.

use clap::{Args, Subcommand};
use host_api::client::Item;
use host_api::limit::{LimitBody, MatchBody};
use host_api::queue::{PauseBody, QueueView};
use host_console::error::{CliError, cannot, cannot_find};
use host_console::options::Remote;
use host_console::output::put_line;
use host_console::table::{Cell, Column, Rows, state_cell};
use host_console::{human, plain};
use host_core::job::{STATES, State};

use crate::complete;

/// List, show, pause, resume, limit and remove queues.
#[derive(Debug, Args)]
pub(crate) struct Queue {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the queues and how many jobs they have in each state
    #[command(after_help = "Example:\n  host queue ls -o json")]
    Ls(Remote),
    /// Show one queue
    #[command(after_help = "Example:\n  host queue show default")]
    Show(QueueArgs),
    /// Pause a queue: running jobs continue, no others start
    #[command(
        after_help = "Examples:\n  host queue pause nightly\n  host queue pause imports --create"
    )]
    Pause(Pause),
    /// Resume a paused queue
    #[command(after_help = "Example:\n  host queue resume nightly")]
    Resume(QueueArgs),
    /// Limit how many jobs of a queue run concurrently, on all nodes together
    #[command(after_help = "\
It sets the limit `queue:NAME`, which `host limit show` shows and `host limit rm` removes.

Example:
  host queue set nightly --concurrency 4")]
    Set(Set),
    /// Remove a queue that has no jobs
    #[command(after_help = "\
Jobs that have ended count too: `host job purge --queue NAME` removes them. A limit of the queue stays.

Example:
  host queue rm nightyl")]
    Rm(QueueArgs),
}

#[derive(Debug, Args)]
struct Pause {
    /// Make the queue if it does not exist, so that its first jobs wait
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    named: QueueArgs,
}

#[derive(Debug, Args)]
struct Set {
    /// How many of its jobs may run concurrently
    #[arg(long, value_name = "N", value_parser = human::whole::<u32>(1, 1_000_000))]
    concurrency: u32,
    #[command(flatten)]
    named: QueueArgs,
}

#[derive(Debug, Args)]
struct QueueArgs {
    /// The queue's name
    #[arg(add = complete::queues())]
    name: String,
    #[command(flatten)]
    remote: Remote,
}

/// What helps if the host does not know a queue.
const LISTED: &str = "`host queue ls` lists the queues";

impl Queue {
    /// Runs the verb.
    pub(crate) fn run(self) -> Result<(), CliError> {
        match self.verb {
            Verb::Ls(remote) => ls(&remote),
            Verb::Show(named) => show(&named),
            Verb::Pause(pause) => self::pause(&pause),
            Verb::Resume(named) => resume(&named),
            Verb::Set(set) => self::set(&set),
            Verb::Rm(named) => rm(&named),
        }
    }
}

fn ls(remote: &Remote) -> Result<(), CliError> {
    let (client, output) = remote.open()?;
    let queues = client.queues().map_err(cannot("list queues"))?.items;
    output.list(&queues, |queue| &queue.name, || table(&queues))?;
    output.hint(if queues.is_empty() {
        "no queues; the first job of a queue creates it"
    } else {
        "`host queue pause NAME` pauses a queue"
    });
    Ok(())
}

fn table(queues: &[Item<QueueView>]) -> Rows {
    let mut rows = Rows::new(&[
        Column::Left("QUEUE"),
        Column::Left("CLAIMS"),
        Column::Right("WAITING"),
        Column::Right("RUNNING"),
        Column::Right("COMPLETED"),
        Column::Right("CANCELLED"),
        Column::Right("DISCARDED"),
    ]);
    for Item { view, .. } in queues {
        let mut cells = vec![
            Cell::new(plain::line(&view.name)),
            Cell::new(if view.paused { "paused" } else { "open" }),
        ];
        let waiting = WAITING.into_iter().map(|state| view.count(state)).sum();
        let others = [
            State::Running,
            State::Completed,
            State::Cancelled,
            State::Discarded,
        ];
        let counts = others.map(|state| view.count(state));
        let counts = std::iter::once(waiting).chain(counts);
        cells.extend(counts.map(|jobs| Cell::new(human::count(jobs))));
        rows.row(cells);
    }
    rows
}

/// The states of jobs that wait to run; `host queue show` counts each.
const WAITING: [State; 4] = [
    State::Pending,
    State::Scheduled,
    State::Available,
    State::Retryable,
];

fn show(named: &QueueArgs) -> Result<(), CliError> {
    let (client, output) = named.remote.open()?;
    let name = plain::line(&named.name);
    let doing = format!("show queue {name}");
    let answer = client
        .queue(&named.name)
        .map_err(cannot_find(&doing, LISTED))?;
    let view = &answer.view;
    output.print_item(&answer.json, &plain::line(&view.name), || {
        let mut rows = Rows::new(&[Column::Left("STATE"), Column::Right("JOBS")]);
        for state in STATES {
            let jobs = human::count(view.count(state));
            rows.row(vec![state_cell(state.as_str()), Cell::new(jobs)]);
        }
        output.rows(rows)?;
        put_line(&if view.paused {
            format!("queue {name} is paused; `host queue resume {name}` resumes it")
        } else {
            format!("queue {name} is open")
        })
    })?;
    output.hint(&format!("`host job ls --queue {name}` lists its jobs"));
    Ok(())
}

fn pause(Pause { create, named }: &Pause) -> Result<(), CliError> {
    let (client, output) = named.remote.open()?;
    let name = plain::line(&named.name);
    let answer = client.pause_queue(&named.name, &PauseBody { create: *create });
    let next = "`host queue ls` lists the queues; `--create` makes one";
    let answer = answer.map_err(cannot_find(&format!("pause queue {name}"), next))?;
    output.print_item(&answer.json, &name, || {
        put_line(&format!("{name} is paused"))?;
        output.hint(&format!(
            "running jobs continue; `host queue resume {name}` resumes the queue"
        ));
        Ok(())
    })
}

fn resume(named: &QueueArgs) -> Result<(), CliError> {
    let (client, output) = named.remote.open()?;
    let name = plain::line(&named.name);
    let answer = client
        .resume_queue(&named.name)
        .map_err(cannot_find(&format!("resume queue {name}"), LISTED))?;
    output.print_item(&answer.json, &name, || put_line(&format!("{name} is open")))
}

fn rm(named: &QueueArgs) -> Result<(), CliError> {
    let (client, output) = named.remote.open()?;
    let name = plain::line(&named.name);
    let answer = client
        .remove_queue(&named.name)
        .map_err(cannot_find(&format!("remove queue {name}"), LISTED))?;
    output.print_item(&answer.json, &name, || {
        put_line(&format!("{name} is removed"))
    })
}

fn set(set: &Set) -> Result<(), CliError> {
    let (client, output) = set.named.remote.open()?;
    let name = plain::line(&set.named.name);
    let body = LimitBody {
        matches: Some(MatchBody {
            queue: Some(set.named.name.clone()),
            handler: None,
        }),
        concurrency: Some(set.concurrency),
        ..LimitBody::default()
    };
    let limit = format!("queue:{}", set.named.name);
    let answer = client
        .set_limit(&limit, &body)
        .map_err(cannot(&format!("limit queue {name}")))?;
    let limit = plain::line(&limit);
    output.print_item(&answer.json, &limit, || {
        let jobs = human::count(set.concurrency.into());
        put_line(&format!("{name}: {jobs} at a time"))
    })?;
    output.hint(&format!("`host limit rm {limit}` removes this limit"));
    Ok(())
}
