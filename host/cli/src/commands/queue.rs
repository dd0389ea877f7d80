//! `host queue`: how many jobs each queue has in each state; pausing and resuming.

use std::time::Duration;

use clap::{Args, Subcommand};
use host_console::client::segment;
use host_console::error::{CliError, Exit};
use host_console::options::Remote;
use host_console::output::put_line;
use host_console::table::{Cell, Column, Rows, state_cell};
use host_console::{human, pages, plain};
use host_core::job::{STATES, State};
use serde::Deserialize;

/// List, show, pause and resume queues.
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
    Show(Named),
    /// Pause a queue: running jobs go on, no others start
    #[command(after_help = "Example:\n  host queue pause nightly")]
    Pause(Named),
    /// Resume a paused queue
    #[command(after_help = "Example:\n  host queue resume nightly")]
    Resume(Named),
}

#[derive(Debug, Args)]
struct Named {
    /// The queue's name
    name: String,
    #[command(flatten)]
    remote: Remote,
}

/// A queue as the API shows it.
#[derive(Deserialize)]
struct View {
    name: String,
    #[serde(default)]
    paused: bool,
    #[serde(default)]
    counts: std::collections::BTreeMap<String, u64>,
}

impl Queue {
    /// Runs the verb.
    pub(crate) fn run(self) -> Result<(), CliError> {
        match self.verb {
            Verb::Ls(remote) => ls(&remote),
            Verb::Show(named) => show(&named),
            Verb::Pause(named) => switch(&named, "pause"),
            Verb::Resume(named) => switch(&named, "resume"),
        }
    }
}

fn ls(remote: &Remote) -> Result<(), CliError> {
    let (client, output) = remote.open()?;
    let list = pages::all::<View>(&client, "list queues", "/api/v1/queues")?;
    let views = &list.views;
    let name = |index: usize| {
        let name = views.get(index).map(|view| plain::line(&view.name));
        name.unwrap_or_default().into_owned()
    };
    output.list(&list.items, name, || table(views))?;
    output.hint(if views.is_empty() {
        "no queues; the first job of a queue creates it"
    } else {
        "`host queue pause NAME` pauses a queue"
    });
    Ok(())
}

fn table(views: &[View]) -> Rows {
    let mut columns = vec![Column::Left("QUEUE"), Column::Left("CLAIMS")];
    columns.extend(TITLES.map(Column::Right));
    let mut rows = Rows::new(&columns);
    for view in views {
        let mut cells = vec![
            Cell::new(plain::line(&view.name)),
            Cell::new(if view.paused { "paused" } else { "open" }),
        ];
        cells.extend(STATES.map(|state| Cell::new(human::count(count(view, state)))));
        rows.row(cells);
    }
    rows
}

/// The titles of the columns of [`STATES`].
const TITLES: [&str; STATES.len()] = [
    "PENDING",
    "SCHEDULED",
    "AVAILABLE",
    "RUNNING",
    "RETRYABLE",
    "COMPLETED",
    "CANCELLED",
    "DISCARDED",
];

fn count(view: &View, state: State) -> u64 {
    view.counts.get(state.as_str()).copied().unwrap_or_default()
}

fn show(named: &Named) -> Result<(), CliError> {
    let (client, output) = named.remote.open()?;
    let name = plain::line(&named.name);
    let doing = format!("show queue {name}");
    let path = format!("/api/v1/queues/{}", segment(&named.name));
    let answer = client.get(&doing, &path, Duration::ZERO).map_err(unknown)?;
    let view: View = answer.read(&doing)?;
    output.one(&answer.body, &plain::line(&view.name), || {
        let mut rows = Rows::new(&[Column::Left("STATE"), Column::Right("JOBS")]);
        for state in STATES {
            let jobs = human::count(count(&view, state));
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

fn switch(named: &Named, verb: &str) -> Result<(), CliError> {
    let (client, output) = named.remote.open()?;
    let name = plain::line(&named.name);
    let doing = format!("{verb} queue {name}");
    let path = format!("/api/v1/queues/{}/{verb}", segment(&named.name));
    let answer = client.post(&doing, &path, "{}").map_err(unknown)?;
    output.one(&answer.body, &name, || {
        if verb == "pause" {
            put_line(&format!("{name} is paused"))?;
            let view: View = answer.read(&doing)?;
            if view.counts.values().all(|jobs| *jobs == 0) {
                output.note("no job has come to this queue yet; `host queue ls` lists the others");
            }
            output.hint(&format!(
                "running jobs go on; `host queue resume {name}` resumes the queue"
            ));
            return Ok(());
        }
        put_line(&format!("{name} is open"))
    })
}

fn unknown(error: CliError) -> CliError {
    match error.exit() {
        Exit::NotFound => error.next("`host queue ls` lists the queues"),
        _ => error,
    }
}
