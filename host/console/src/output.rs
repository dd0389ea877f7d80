//! Writes data to standard output in the format asked for, and everything else to standard error.
//! Callers escape text of guests, jobs and servers (`plain`) before they pass it in.

use std::io::{self, IsTerminal, Stdout, Write};

use clap::ValueEnum;
use host_api::client::Item;
use host_api::pretty;

use crate::closed::stdout_is_closed;
use crate::error::CliError;
use crate::plain;
use crate::table::Rows;

/// The format of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Table,
    /// One JSON document, laid out
    Json,
    /// One JSON document per line
    Jsonl,
    /// Only names or ids, one per line
    Name,
}

/// The output of a command.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    format: Format,
    quiet: bool,
    color: bool,
}

impl Output {
    /// Makes an output. It uses colors if standard output is a terminal that accepts them.
    pub fn new(format: Format, quiet: bool) -> Self {
        let choice = anstream::AutoStream::choice(&std::io::stdout());
        Self {
            format,
            quiet,
            color: !matches!(choice, anstream::ColorChoice::Never),
        }
    }

    /// Returns the requested format.
    pub fn format(self) -> Format {
        self.format
    }

    /// Returns whether the output is for people.
    pub fn is_human(self) -> bool {
        self.format == Format::Table
    }

    /// Returns whether a spinner may be shown.
    pub fn is_live(self) -> bool {
        !self.quiet && std::io::stderr().is_terminal()
    }

    /// Writes one document as JSON. It is laid out unless the format is one line per document.
    pub fn json(self, document: &str) -> Result<(), CliError> {
        let document = pretty::harmless(document.trim());
        match self.format {
            Format::Jsonl => put_line(&document),
            Format::Table | Format::Json | Format::Name => put_line(&pretty::json(&document)),
        }
    }

    /// Writes a list. `name` returns the name of an entry. `name` and `table` are called only if the format
    /// needs them.
    pub fn list<T>(
        self,
        items: &[Item<T>],
        name: impl Fn(&T) -> &str,
        table: impl FnOnce() -> Rows,
    ) -> Result<(), CliError> {
        match self.format {
            Format::Table if items.is_empty() => Ok(()),
            Format::Table => self.rows(table()),
            Format::Json => self.json(&array(items)),
            Format::Jsonl => items.iter().try_for_each(|item| self.json(item.json.get())),
            Format::Name => items
                .iter()
                .try_for_each(|item| put_line(&plain::line(name(&item.view)))),
        }
    }

    /// Writes one item: its JSON, its name, or what `human` writes.
    pub fn print_item(
        self,
        document: &str,
        name: &str,
        human: impl FnOnce() -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        match self.format {
            Format::Table => human(),
            Format::Json | Format::Jsonl => self.json(document),
            Format::Name => put_line(name),
        }
    }

    /// Writes a table to standard output, no wider than its terminal.
    pub fn rows(self, mut rows: Rows) -> Result<(), CliError> {
        if let Some(width) = Rows::terminal_width() {
            rows.fit(width);
        }
        put_line(&rows.render(self.color))
    }

    /// Writes a note to standard error, unless `--quiet` is given.
    pub fn note(self, text: &str) {
        if !self.quiet {
            say(text);
        }
    }

    /// Writes a note below a line that may be unfinished: that of a spinner.
    pub(crate) fn interrupted(self, text: &str) {
        let begin = if self.is_live() { "\n" } else { "" };
        self.note(&format!("{begin}{text}"));
    }

    /// Writes how something ended to standard error. `--quiet` hides success, never failure.
    pub fn ending(self, text: &str, failed: bool) {
        if failed || !self.quiet {
            say(text);
        }
    }

    /// Writes a hint about what to do next to standard error, if the output is for people.
    pub fn hint(self, text: &str) {
        if self.is_human() && !self.quiet {
            say(&format!("hint: {text}"));
        }
    }
}

/// Returns entries as one JSON array.
pub fn array<T>(items: &[Item<T>]) -> String {
    let items: Vec<&str> = items.iter().map(|item| item.json.get()).collect();
    format!("[{}]", items.join(","))
}

/// Writes `text` and a line break to standard output.
pub fn put_line(text: &str) -> Result<(), CliError> {
    put_with(|out| {
        out.write_all(text.as_bytes())?;
        out.write_all(b"\n")
    })
}

/// Lets `write` write to standard output.
pub fn put_with(write: impl FnOnce(&mut Stdout) -> io::Result<()>) -> Result<(), CliError> {
    if stdout_is_closed() {
        return Err(CliError::closed_stdout());
    }
    let mut out = io::stdout();
    write(&mut out)
        .and_then(|()| out.flush())
        .map_err(|error| CliError::stdout(&error))
}

/// Writes a title and, indented below it, a text to standard output.
pub fn put_section(title: &str, text: &str) -> Result<(), CliError> {
    put_line(&format!("\n{title}"))?;
    text.lines()
        .try_for_each(|line| put_line(format!("  {line}").trim_end()))
}

/// Writes a line to standard error. A failure to write is ignored.
pub fn say(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = writeln!(err, "{text}").and_then(|()| err.flush());
}
