//! Tables and lists of keys and values, laid out for people.

pub use comfy_table::{Cell, Color};

use comfy_table::{Attribute, CellAlignment, Table, presets};

/// The title of a column and how its cells are aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// A column of text, aligned left.
    Left(&'static str),
    /// A column of numbers or ages, aligned right.
    Right(&'static str),
}

#[derive(Debug)]
pub struct Rows {
    table: Table,
}

impl Rows {
    /// Starts a table with the given columns.
    pub fn new(columns: &[Column]) -> Self {
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
    pub fn pairs() -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        Self { table }
    }

    /// Adds a key and its value.
    pub fn pair(&mut self, key: &str, value: &str) {
        let key = Cell::new(key).add_attribute(Attribute::Dim);
        self.row(vec![key, Cell::new(value)]);
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<Cell>) {
        self.table.add_row(cells);
    }

    /// Lays the rows out as text.
    pub fn render(mut self, color: bool) -> String {
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

/// Makes the cell of a job's state, colored by the state.
pub fn state_cell(state: &str) -> Cell {
    let cell = Cell::new(state);
    match state {
        "completed" => cell.fg(Color::Green),
        "discarded" => cell.fg(Color::Red),
        "cancelled" | "retryable" => cell.fg(Color::Yellow),
        "running" => cell.fg(Color::Cyan),
        _ => cell,
    }
}
