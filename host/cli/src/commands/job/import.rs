//! `host job import`: enqueues the jobs of a file, one in each line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use clap::Args;
use host_api::client::{Client, Item, LineView};
use host_api::new_job::{LINE_BYTES_MAX, LINES_AT_ONCE};
use host_console::error::{CliError, Exit, cannot};
use host_console::interrupt::Farewell;
use host_console::options::Remote;
use host_console::output::{Format, Output, put_line, say};
use host_console::progress::Spinner;
use host_console::table::Rows;
use host_console::{human, plain};
use host_core::encoding;
use serde_json::json;

/// How many refused lines are shown to people.
const REFUSALS_MAX: usize = 20;

/// The code of a host that has no room for more requests, or is stopping.
const BUSY: &str = "busy";

/// Enqueue the jobs of a file, one in each line.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host job import jobs.ndjson
  make-jobs | host job import -
  host job import jobs.ndjson --from-line 513 -o jsonl > accepted.jsonl

Each line is a job as the API takes it, such as
{\"handler\": \"echo\", \"params\": {\"a\": 1}, \"unique_key\": \"a-1\"}.
Lines are accepted or refused alone. With -o jsonl each line has its answer, with -o name the id of its job.

Exit codes: 0 all accepted, 1 some refused, 6 the host does not answer.")]
pub(super) struct Import {
    /// The file, or - for standard input
    file: String,
    /// Begin with this line; the first one is 1
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = human::whole::<u64>(1, u64::MAX))]
    from_line: u64,
    #[command(flatten)]
    remote: Remote,
}

/// Lines that are sent together.
#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    /// The numbers of those with a job, from 1.
    numbers: Vec<u64>,
    /// The number of the line behind them, if it is too long to be sent.
    too_long: Option<u64>,
}

/// The results of the lines so far.
#[derive(Default)]
struct Totals {
    enqueued: u64,
    existing: u64,
    refused: u64,
    /// The numbers of the first few that were refused, and why.
    refusals: Vec<(u64, String)>,
}

impl Import {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let shown = match self.file.as_str() {
            "-" => "standard input".into(),
            path => plain::line(path),
        };
        let doing = format!("import jobs from {shown}");
        let unreadable = |error: io::Error| {
            CliError::new(Exit::Usage, &doing, error)
                .next("pass a file with a job in each line, or - for standard input")
        };
        let source: Box<dyn Read> = match self.file.as_str() {
            "-" => Box::new(io::stdin()),
            path => Box::new(File::open(Path::new(path)).map_err(unreadable)?),
        };
        let mut reader = BufReader::with_capacity(LINE_BYTES_MAX, source);
        skip_mark(&mut reader).map_err(unreadable)?;
        let (mut totals, mut next) = (Totals::default(), 1);
        let spinner = Spinner::new(output, &doing);
        let mut farewell = None;
        let mut leave_at = |number: u64| {
            // The earlier one ends first.
            farewell = None;
            let words = format!(
                "line {number} and the rest may not be enqueued; {}",
                from(number)
            );
            farewell = Some(Farewell::say(output, words));
        };
        loop {
            let lines = Lines::read(&mut reader, &mut next, self.from_line).map_err(unreadable)?;
            if lines.numbers.is_empty() && lines.too_long.is_none() {
                break;
            }
            leave_at(lines.first());
            totals.send(&client, output, &lines)?;
            leave_at(next);
            spinner.say(&format!("{doing}: {}", human::counted(next - 1, "line")));
        }
        drop(spinner);
        totals.print(output)
    }
}

/// Skips a byte order mark. Fails if the lines are not UTF-8 by their beginning.
fn skip_mark(reader: &mut impl BufRead) -> io::Result<()> {
    let begin = reader.fill_buf()?;
    let mark = begin.len() - encoding::unmarked(begin).map_err(io::Error::other)?.len();
    reader.consume(mark);
    Ok(())
}

impl Lines {
    /// Returns the number of the first line, or 1 if there is no line.
    fn first(&self) -> u64 {
        let sent = self.numbers.first().copied();
        sent.or(self.too_long).unwrap_or(1)
    }

    /// Reads the lines that have arrived, waiting for at least one, and skips those before line `from`. `next` is the
    /// number of the next line. Returns no lines at the end of the input.
    fn read(reader: &mut BufReader<impl Read>, next: &mut u64, from: u64) -> io::Result<Self> {
        let mut lines = Self::default();
        while lines.numbers.len() < LINES_AT_ONCE && lines.too_long.is_none() {
            // A pipe may be silent for long: what has arrived is not kept waiting.
            if !lines.numbers.is_empty() && !reader.buffer().contains(&b'\n') {
                break;
            }
            let begin = lines.bytes.len();
            let limit = LINE_BYTES_MAX as u64 + 1;
            if reader
                .by_ref()
                .take(limit)
                .read_until(b'\n', &mut lines.bytes)?
                == 0
            {
                break;
            }
            let line = &lines.bytes[begin..];
            let is_too_long = line.len() > LINE_BYTES_MAX && !line.ends_with(b"\n");
            if is_too_long {
                reader.skip_until(b'\n')?;
            }
            if is_too_long || *next < from || line.trim_ascii().is_empty() {
                lines.bytes.truncate(begin);
                lines.too_long = (is_too_long && *next >= from).then_some(*next);
            } else {
                lines.numbers.push(*next);
            }
            *next += 1;
        }
        Ok(lines)
    }
}

impl Totals {
    /// Sends lines, and prints their answers if the user wants them.
    fn send(&mut self, client: &Client, output: Output, lines: &Lines) -> Result<(), CliError> {
        let mut answers = Vec::new();
        if let Some(first) = lines.numbers.first() {
            let sent = client.enqueue_lines(&lines.bytes);
            answers = sent.map_err(|error| continuing_at(cannot(&rest(*first))(error), *first))?;
        }
        let mut answers = answers.into_iter();
        for number in &lines.numbers {
            let stops = |cause: &str| {
                let error = CliError::new(Exit::Unreachable, rest(*number), cause);
                Err(continuing_at(error, *number))
            };
            let Some(Item { json, view }) = answers.next() else {
                return stops("the host is stopping");
            };
            if let LineView::Refused(problem) = &view
                && problem.code.as_deref() == Some(BUSY)
            {
                return stops(problem.detail.as_deref().unwrap_or("the host is busy"));
            }
            match (output.format(), &view) {
                (Format::Jsonl, _) => put_line(json.get())?,
                (Format::Name, LineView::Accepted(job)) => put_line(&plain::line(&job.id))?,
                _ => {}
            }
            match view {
                LineView::Accepted(job) if job.existing => self.existing += 1,
                LineView::Accepted(_) => self.enqueued += 1,
                LineView::Refused(problem) => {
                    let why = problem.detail.or(problem.title);
                    self.refuse(*number, why.unwrap_or_default());
                }
            }
        }
        if let Some(number) = lines.too_long {
            let why = format!("longer than {}", human::bytes(LINE_BYTES_MAX as u64));
            if output.format() == Format::Jsonl {
                put_line(&json!({"code": "body_too_large", "detail": why}).to_string())?;
            }
            self.refuse(number, why);
        }
        Ok(())
    }

    fn refuse(&mut self, number: u64, why: String) {
        self.refused += 1;
        if self.refusals.len() < REFUSALS_MAX {
            self.refusals.push((number, why));
        }
    }

    fn print(self, output: Output) -> Result<(), CliError> {
        let refusals = self
            .refusals
            .iter()
            .map(|(line, detail)| json!({"line": line, "detail": detail}));
        let document = json!({
            "enqueued": self.enqueued,
            "existing": self.existing,
            "refused": self.refused,
            "refusals": refusals.collect::<Vec<_>>(),
        });
        match output.format() {
            Format::Json => output.json(&document.to_string())?,
            Format::Jsonl | Format::Name => {}
            Format::Table => {
                let mut rows = Rows::pairs();
                rows.pair("enqueued", &human::count(self.enqueued));
                for (name, jobs) in [
                    ("existed already", self.existing),
                    ("refused", self.refused),
                ] {
                    if jobs > 0 {
                        rows.pair(name, &human::count(jobs));
                    }
                }
                output.rows(rows)?;
            }
        }
        for (line, why) in &self.refusals {
            say(&format!("line {line}: {}", plain::line(why)));
        }
        match self.refused {
            0 => Ok(()),
            _ => Err(CliError::Silent(Exit::Failed)),
        }
    }
}

fn rest(number: u64) -> String {
    format!("enqueue line {number} and the rest")
}

fn continuing_at(error: CliError, number: u64) -> CliError {
    error.next(from(number))
}

fn from(number: u64) -> String {
    format!(
        "`--from-line {number}` continues from there; jobs with a unique key are not enqueued twice"
    )
}
