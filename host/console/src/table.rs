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

/// How narrow a column of text may become, in characters. Where it would be narrower, rows become lists of keys and values.
const TEXT_WIDTH_MIN: u16 = 6;

/// The space after a column, in characters.
const GAP: u16 = 2;

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

    /// Breaks the text of wide cells, so that no line is longer than `width`. If the columns do not fit, each row becomes a
    /// list of keys and values.
    pub(crate) fn fit(&mut self, width: u16) {
        if self.least_width() > width {
            self.turn();
        }
        self.table.set_width(width);
        self.table
            .set_content_arrangement(ContentArrangement::Dynamic);
    }

    /// Returns how wide the table is if its columns of text are as narrow as they may become.
    fn least_width(&self) -> u16 {
        let Some(header) = self.table.header() else {
            return 0;
        };
        let widths = self.table.column_max_content_widths();
        let columns = self.table.column_iter().zip(widths);
        let least = columns
            .zip(header.cell_iter())
            .map(|((column, content), title)| {
                if column.constraint().is_some() {
                    return content;
                }
                let title = u16::try_from(title.content().len()).unwrap_or(u16::MAX);
                content.min(title.max(TEXT_WIDTH_MIN))
            });
        least
            .reduce(|sum, width| sum.saturating_add(GAP).saturating_add(width))
            .unwrap_or_default()
    }

    /// Makes each row a list of keys and values, with an empty line between two rows. Empty cells are left out.
    fn turn(&mut self) {
        let turned = std::mem::replace(self, Self::pairs()).table;
        let titles: Vec<String> = turned
            .header()
            .map(|header| header.cell_iter().map(Cell::content).collect())
            .unwrap_or_default();
        for (place, row) in turned.row_iter().enumerate() {
            if place > 0 {
                self.row(vec![Cell::new(""), Cell::new("")]);
            }
            let filled = titles.iter().zip(row.cell_iter());
            for (title, cell) in filled.filter(|(_, cell)| !cell.content().is_empty()) {
                let key = Cell::new(title).add_attribute(Attribute::Dim);
                self.row(vec![key, cell.clone()]);
            }
        }
    }

    /// Lays the rows out as text.
    pub fn render(mut self, color: bool) -> String {
        if color {
            self.table.enforce_styling();
        } else {
            self.table.force_no_tty();
        }
        for column in self.table.column_iter_mut() {
            column.set_padding((0, GAP));
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

    #[test]
    fn rows_that_do_not_fit_become_lists() {
        let mut rows = Rows::new(&[
            Column::Left("ID"),
            Column::Left("HANDLER"),
            Column::Left("QUEUE"),
            Column::Left("STATE"),
            Column::Right("ATTEMPT"),
            Column::Right("RAN"),
            Column::Left("NOTE"),
        ]);
        let long = "q".repeat(90);
        let note = "cancel requested 2s ago";
        for (id, queue, note) in [
            ("01a22679-0479", &*long, ""),
            ("01a22679-0261", "漢字", note),
        ] {
            let cells = [id, "send_email", queue, "running", "1/20", "2.6 s", note];
            rows.row(cells.map(Cell::new).into());
        }
        rows.fit(40);
        let text = rows.render(false);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines.iter().all(|line| line.chars().count() <= 40),
            "{text}"
        );
        assert_eq!(lines[0], "ID       01a22679-0479", "{text}");
        let count = |is: fn(&str) -> bool| lines.iter().filter(|line| is(line)).count();
        assert_eq!(count(str::is_empty), 1, "{text}");
        assert_eq!(count(|line| line.starts_with("NOTE")), 1, "{text}");
    }

    #[test]
    fn a_long_name_in_the_first_column_fits_too() {
        let mut rows = Rows::new(&[Column::Left("QUEUE"), Column::Right("JOBS")]);
        rows.row(vec![Cell::new("q".repeat(90)), Cell::new("7")]);
        rows.fit(80);
        let text = rows.render(false);
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert_eq!(text.matches('q').count(), 90, "{text}");
    }
}
