//! What reaches the terminal: data on standard output in the format asked for, everything else on
//! standard error. Knows no command; text of guests is made harmless by whoever passes it in.

use std::io::{IsTerminal, Write};

use clap::ValueEnum;
use comfy_table::{Attribute, Cell, CellAlignment, Color, Table, presets};
use serde_json::value::RawValue;

use crate::error::CliError;
use crate::json;

/// How data is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
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

/// Where a command writes to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    format: Format,
    quiet: bool,
    color: bool,
}

impl Output {
    /// Makes an output; colors are used where standard output is a terminal that wants them.
    pub(crate) fn new(format: Format, quiet: bool) -> Self {
        let choice = anstream::AutoStream::choice(&std::io::stdout());
        Self {
            format,
            quiet,
            color: !matches!(choice, anstream::ColorChoice::Never),
        }
    }

    /// Returns the format asked for.
    pub(crate) fn format(self) -> Format {
        self.format
    }

    /// Tells whether people read the output.
    pub(crate) fn is_human(self) -> bool {
        self.format == Format::Table
    }

    /// Tells whether something that moves may be shown while waiting.
    pub(crate) fn is_live(self) -> bool {
        !self.quiet && std::io::stderr().is_terminal()
    }

    /// Writes one document as JSON, laid out unless one line per document is asked for.
    pub(crate) fn json(self, document: &str) -> Result<(), CliError> {
        let document = json::harmless(document.trim());
        match self.format {
            Format::Jsonl => put_line(&document),
            Format::Table | Format::Json | Format::Name => put_line(&json::pretty(&document)),
        }
    }

    /// Writes a list: `name` and `table` are asked only where the format needs them.
    pub(crate) fn list(
        self,
        items: &[Box<RawValue>],
        name: impl Fn(usize) -> String,
        table: impl FnOnce() -> Rows,
    ) -> Result<(), CliError> {
        match self.format {
            Format::Table if items.is_empty() => Ok(()),
            Format::Table => self.rows(table()),
            Format::Json => {
                let items: Vec<_> = items.iter().map(|item| item.get()).collect();
                self.json(&format!("[{}]", items.join(",")))
            }
            Format::Jsonl => items.iter().try_for_each(|item| self.json(item.get())),
            Format::Name => (0..items.len()).try_for_each(|index| put_line(&name(index))),
        }
    }

    /// Writes one thing: its JSON, its name, or what `human` writes.
    pub(crate) fn one(
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

    /// Writes a table to standard output.
    pub(crate) fn rows(self, rows: Rows) -> Result<(), CliError> {
        put_line(&rows.render(self.color))
    }

    /// Tells the reader something that is not data, on standard error.
    pub(crate) fn note(self, text: &str) {
        if !self.quiet {
            say(text);
        }
    }

    /// Tells a person what to do next, on standard error; other readers are not bothered.
    pub(crate) fn hint(self, text: &str) {
        if self.is_human() && !self.quiet {
            say(&format!("hint: {text}"));
        }
    }
}

/// Writes `text` and a line break to standard output.
pub(crate) fn put_line(text: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.write_all(b"\n"))
        .and_then(|()| out.flush())
        .map_err(|error| CliError::stdout(&error))
}

/// Writes a title and, indented below it, a text to standard output.
pub(crate) fn put_section(title: &str, text: &str) -> Result<(), CliError> {
    put_line(&format!("\n{title}"))?;
    text.lines()
        .try_for_each(|line| put_line(format!("  {line}").trim_end()))
}

/// Writes a line to standard error. Nobody can be told when that fails.
pub(crate) fn say(text: &str) {
    let mut err = std::io::stderr().lock();
    let _told = writeln!(err, "{text}").and_then(|()| err.flush());
}

/// How the cells of a column are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// Text, from the left.
    Left(&'static str),
    /// Numbers and ages, from the right.
    Right(&'static str),
}

/// A table in the making.
#[derive(Debug)]
pub(crate) struct Rows {
    table: Table,
}

impl Rows {
    /// Starts a table with these columns.
    pub(crate) fn new(columns: &[Column]) -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(columns.iter().map(|column| {
            let (Column::Left(title) | Column::Right(title)) = column;
            Cell::new(title).add_attribute(Attribute::Dim)
        }));
        for (column, layout) in table.column_iter_mut().zip(columns) {
            if matches!(layout, Column::Right(_)) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        Self { table }
    }

    /// Starts a list of keys and values.
    pub(crate) fn pairs() -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        Self { table }
    }

    /// Adds a key and its value.
    pub(crate) fn pair(&mut self, key: &str, value: &str) {
        let key = Cell::new(key).add_attribute(Attribute::Dim);
        self.row(vec![key, Cell::new(value)]);
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        self.table.add_row(cells);
    }

    fn render(mut self, color: bool) -> String {
        if color {
            self.table.enforce_styling();
        } else {
            self.table.force_no_tty();
        }
        for column in self.table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        self.table
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// Makes the cell of a job's state, in the color of what it means.
pub(crate) fn state_cell(state: &str) -> Cell {
    let cell = Cell::new(state);
    match state {
        "completed" => cell.fg(Color::Green),
        "discarded" => cell.fg(Color::Red),
        "cancelled" | "retryable" => cell.fg(Color::Yellow),
        "running" => cell.fg(Color::Cyan),
        _ => cell,
    }
}
