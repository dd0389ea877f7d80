//! `host job logs`: prints the log of a job, with `--follow` until the job ends.

use std::time::Duration;

use clap::Args;
use host_api::log::LineView;
use host_console::client::{Client, query, read, segment};
use host_console::error::CliError;
use host_console::options::Remote;
use host_console::output::{Format, Output, put_line};
use host_console::plain;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{View, fetch, parse_id};
use crate::log;

/// How often a followed job is asked for more, in seconds.
const POLL_SECONDS: u64 = 1;

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

#[derive(Deserialize)]
struct Page {
    items: Vec<Box<RawValue>>,
    next_cursor: Option<String>,
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
    collected: Vec<String>,
}

impl Logs {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let doing = format!("read the logs of job {}", plain::line(&self.id));
        let view: View = fetch(&client, &doing, &self.id)?.read(&doing)?;
        let mut ended = view.is_terminal();
        let mut position = Position::default();
        loop {
            print_new(&client, output, &doing, &view.id, &mut position)?;
            if ended || !self.follow {
                break;
            }
            ended = has_ended(&client, &doing, &view.id)?;
        }
        if output.format() == Format::Json {
            output.json(&format!("[{}]", position.collected.join(",")))?;
        }
        if position.lines == 0 {
            output.hint("the job has logged nothing so far");
        } else if !ended {
            output.hint("the job goes on; --follow prints new lines as they come");
        }
        Ok(())
    }
}

/// Returns all lines that a job has logged so far.
pub(super) fn all(client: &Client, doing: &str, id: &str) -> Result<Vec<Box<RawValue>>, CliError> {
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
pub(super) fn print_all(lines: &[Box<RawValue>]) -> Result<(), CliError> {
    let mut position = Position::default();
    lines
        .iter()
        .try_for_each(|line| print(&read("read a log", line.get())?, &mut position))
}

fn page(client: &Client, doing: &str, id: &str, cursor: Option<String>) -> Result<Page, CliError> {
    let parameters = query(&[("cursor", cursor)]);
    let path = format!("/api/v1/jobs/{}/logs{parameters}", segment(id));
    client.get(doing, &path, Duration::ZERO)?.read(doing)
}

/// Waits for one poll and tells whether the job has ended by then.
fn has_ended(client: &Client, doing: &str, id: &str) -> Result<bool, CliError> {
    let path = format!(
        "/api/v1/jobs/{}/wait?timeout_seconds={POLL_SECONDS}",
        segment(id)
    );
    let answer = client.get(doing, &path, Duration::from_secs(POLL_SECONDS))?;
    Ok(answer.read::<View>(doing)?.is_terminal())
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
        for item in page.items.iter().skip(position.printed) {
            match output.format() {
                Format::Table | Format::Name => print(&read(doing, item.get())?, position)?,
                Format::Jsonl => output.json(item.get())?,
                Format::Json => position.collected.push(item.get().to_owned()),
            }
            position.lines += 1;
        }
        let Some(next) = page.next_cursor else {
            position.printed = page.items.len();
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
    let fields = line.fields.iter();
    let fields = fields.map(|(key, value)| (key.as_str(), value.as_str()));
    put_line(&log::line(line.at_ms, label, &line.message, fields))
}
