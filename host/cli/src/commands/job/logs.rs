//! `host job logs`: prints the log of a job, with `--follow` until the job ends.

use clap::Args;
use host_api::client::{Client, Item};
use host_api::filter::PageQuery;
use host_api::log::{LineView, plain_value};
use host_api::page::PageView;
use host_console::error::{CliError, cannot};
use host_console::options::Remote;
use host_console::output::{Format, Output, array, put_line};
use host_console::plain;
use host_core::seconds::Seconds;

use super::{fetch, has_ended, parse_id};
use crate::complete;
use crate::log;

/// How often the host is polled for more of a followed log.
pub(super) const POLL: Seconds = Seconds { ms: 1_000 };

/// Print the log of a job.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host job logs 01990f3c --follow
  host job logs 01990f3c -o jsonl | jq -r .message")]
pub(super) struct Logs {
    /// The job's id or a prefix of it
    #[arg(value_parser = parse_id)]
    #[arg(add = complete::jobs())]
    id: String,
    /// Print new lines as they come, until the job ends
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    remote: Remote,
}

/// The log of a job, as far as it is printed.
#[derive(Default)]
pub(super) struct Log {
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
        let mut log = Log::default();
        loop {
            log.print_new(&client, output, &doing, &view.id)?;
            if ended || !self.follow {
                break;
            }
            let polled = client.wait_for_job(&view.id, POLL);
            ended = has_ended(&polled.map_err(cannot(&doing))?.view.state);
        }
        if output.format() == Format::Json {
            output.json(&array(&log.collected))?;
        }
        if log.lines == 0 {
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

impl Log {
    /// Prints the lines that have come since the last call.
    pub(super) fn print_new(
        &mut self,
        client: &Client,
        output: Output,
        doing: &str,
        id: &str,
    ) -> Result<(), CliError> {
        loop {
            let page = page(client, doing, id, self.cursor.clone())?;
            let count = page.items.len();
            for item in page.items.into_iter().skip(self.printed) {
                match output.format() {
                    Format::Table | Format::Name => self.print(&item.view)?,
                    Format::Jsonl => output.json(item.json.get())?,
                    Format::Json => self.collected.push(item),
                }
                self.lines += 1;
            }
            let Some(next) = page.next_cursor else {
                self.printed = count;
                return Ok(());
            };
            (self.cursor, self.printed) = (Some(next), 0);
        }
    }

    /// Prints a line; the first line of each later attempt gets the attempt's number above it.
    fn print(&mut self, line: &LineView) -> Result<(), CliError> {
        if line.attempt > self.attempt.max(1) {
            put_line(&format!("attempt {}", line.attempt))?;
        }
        self.attempt = line.attempt;
        let label = log::label(&line.source, &line.level);
        let fields = line
            .fields
            .iter()
            .map(|(key, value)| (key.as_str(), plain_value(value)));
        put_line(&log::line(line.at_ms, label, &line.message, fields))
    }
}
