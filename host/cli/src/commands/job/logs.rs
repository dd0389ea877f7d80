//! `host job logs`: prints the log of a job, with `--follow` until the job ends.

use clap::Args;
use host_api::client::{Client, Item};
use host_api::filter::PageQuery;
use host_api::log::LineView;
use host_api::page::PageView;
use host_console::error::{CliError, cannot};
use host_console::options::Remote;
use host_console::output::{Format, Output, array, put_line};
use host_console::plain;
use host_core::seconds::Seconds;

use super::{fetch, has_ended, parse_id};
use crate::log;

/// How often the host is polled for more of a followed log.
const POLL: Seconds = Seconds { ms: 1_000 };

/// Print the log of a job.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host job logs 01990f3c --follow
  host job logs 01990f3c -o jsonl | jq -r .message")]
pub(super) struct Logs {
    /// The job's id or a prefix of it
    #[arg(value_parser = parse_id)]
    id: String,
    /// Print new lines as they come, until the job ends
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    remote: Remote,
}

/// How much of the log is printed.
#[derive(Default)]
struct Position {
    cursor: Option<String>,
    /// Lines of the page at `cursor` that are printed already.
    printed: usize,
    attempt: u32,
    lines: usize,
    /// The lines, where they are printed as one JSON document.
    collected: Vec<Item<LineView>>,
}

impl Logs {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let doing = format!("read the logs of job {}", plain::line(&self.id));
        let view = fetch(&client, &doing, &self.id)?.view;
        let mut ended = view.is_terminal();
        let mut position = Position::default();
        loop {
            print_new(&client, output, &doing, &view.id, &mut position)?;
            if ended || !self.follow {
                break;
            }
            let polled = client.wait_for_job(&view.id, POLL);
            ended = has_ended(&polled.map_err(cannot(&doing))?.view.state);
        }
        if output.format() == Format::Json {
            output.json(&array(&position.collected))?;
        }
        if position.lines == 0 {
            output.hint("the job has logged nothing so far");
        } else if !ended {
            output.hint("the job continues; --follow prints new lines as they come");
        }
        Ok(())
    }
}

/// Returns all lines that a job has logged so far.
pub(super) fn fetch_all(
    client: &Client,
    doing: &str,
    id: &str,
) -> Result<Vec<Item<LineView>>, CliError> {
    let mut lines = Vec::new();
    let mut cursor = None;
    loop {
        let page = page(client, doing, id, cursor)?;
        lines.extend(page.items);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(lines);
        }
    }
}

/// Prints lines for people.
pub(super) fn print_all(lines: &[Item<LineView>]) -> Result<(), CliError> {
    let mut position = Position::default();
    lines
        .iter()
        .try_for_each(|line| print(&line.view, &mut position))
}

fn page(
    client: &Client,
    doing: &str,
    id: &str,
    cursor: Option<String>,
) -> Result<PageView<Item<LineView>>, CliError> {
    let limit = None;
    let page = client.logs(id, &PageQuery { limit, cursor });
    Ok(page.map_err(cannot(doing))?.view)
}

/// Prints the lines that came since `position`.
fn print_new(
    client: &Client,
    output: Output,
    doing: &str,
    id: &str,
    position: &mut Position,
) -> Result<(), CliError> {
    loop {
        let page = page(client, doing, id, position.cursor.clone())?;
        let count = page.items.len();
        for item in page.items.into_iter().skip(position.printed) {
            match output.format() {
                Format::Table | Format::Name => print(&item.view, position)?,
                Format::Jsonl => output.json(item.json.get())?,
                Format::Json => position.collected.push(item),
            }
            position.lines += 1;
        }
        let Some(next) = page.next_cursor else {
            position.printed = count;
            return Ok(());
        };
        (position.cursor, position.printed) = (Some(next), 0);
    }
}

/// Prints a line; the first line of each later attempt gets the attempt's number above it.
fn print(line: &LineView, position: &mut Position) -> Result<(), CliError> {
    if line.attempt > position.attempt.max(1) {
        put_line(&format!("attempt {}", line.attempt))?;
    }
    position.attempt = line.attempt;
    let label = log::label(&line.source, &line.level);
    let fields = line
        .fields
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()));
    put_line(&log::line(line.at_ms, label, &line.message, fields))
}
