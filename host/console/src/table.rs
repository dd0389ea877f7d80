//! Tables and lists of keys and values, laid out for people.

pub use comfy_table::{Cell, Color};

use comfy_table::{Attribute, CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};

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
        for (place, column) in table.column_iter_mut().enumerate() {
            let is_number = matches!(columns[place], Column::Right(_));
            if is_number {
                column.set_cell_alignment(CellAlignment::Right);
            }
            if is_number || place == 0 {
                column.set_constraint(ColumnConstraint::ContentWidth);
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

    /// Returns how many characters a line of the terminal on standard output has.
    pub(crate) fn terminal_width() -> Option<u16> {
        Table::new().width()
    }

    /// Breaks the text of wide cells, so that no line is longer than `width` if its numbers and ids leave room.
    pub(crate) fn fit(&mut self, width: u16) {
        self.table.set_width(width);
        self.table
            .set_content_arrangement(ContentArrangement::Dynamic);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_fits_its_terminal() {
        let mut rows = Rows::new(&[
            Column::Left("ID"),
            Column::Left("VERBS"),
            Column::Right("JOBS"),
            Column::Left("NOTE"),
        ]);
        let verbs = "enqueue,read,cancel,retry,schedule,operate,deploy,metrics";
        let note = "the queue is paused, so that no other job of it starts until it is resumed";
        for jobs in ["7", "1,234,567"] {
            let cells = ["4fGh01QwErTy", verbs, jobs, note].map(Cell::new);
            rows.row(cells.into());
        }
        rows.fit(80);
        let text = rows.render(false);
        let longest = text.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(80), "{text}");
        assert!(
            text.contains("4fGh01QwErTy") && text.contains("1,234,567"),
            "{text}"
        );
    }
}
