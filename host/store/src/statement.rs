//! The statements that read and write the rows of tables, written once for both engines.

use host_engine::table::{Kind, Marked, Range, Row, Table, Value};

/// The database that runs a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

/// A statement with its values.
pub(crate) struct Statement {
    dialect: Dialect,
    pub(crate) sql: String,
    pub(crate) values: Vec<(Value, Kind)>,
}

impl Dialect {
    /// Returns the name of a table in this database.
    pub(crate) fn name(self, table: &Table) -> String {
        match self {
            Self::Sqlite => table.name.to_owned(),
            Self::Postgres => format!("host_{}", table.name),
        }
    }

    /// Returns a statement without values.
    pub(crate) fn plain(self, sql: impl Into<String>) -> Statement {
        Statement {
            dialect: self,
            sql: sql.into(),
            values: Vec::new(),
        }
    }

    /// Reads the rows of a range.
    pub(crate) fn select(self, table: &Table, range: &Range) -> Statement {
        let (columns, name) = (names(table), self.name(table));
        let mut statement = self.plain(format!("SELECT {columns} FROM {name}"));
        statement.restrict(table, range);
        let time = table.time.filter(|_| range.due.is_some());
        let order = time.into_iter().chain(0..table.key);
        let way = if range.is_backwards { " DESC" } else { "" };
        let order: Vec<String> = order
            .map(|column| format!("{}{way}", table.columns[column].0))
            .collect();
        statement.push(&[" ORDER BY ", &order.join(", ")]);
        if let Some(limit) = range.limit {
            statement.bind(" LIMIT ", limit.into(), Kind::Int);
        }
        statement
    }

    /// Counts the rows of a range.
    pub(crate) fn count(self, table: &Table, range: &Range) -> Statement {
        let mut statement = self.plain(format!("SELECT count(*) FROM {}", self.name(table)));
        statement.restrict(table, range);
        statement
    }

    /// Returns the text that adds a row.
    pub(crate) fn insert(self, table: &Table) -> String {
        let mut statement = self.plain("");
        for place in 0..table.columns.len() {
            statement.bind(if place > 0 { ", " } else { "" }, Value::Null, Kind::Int);
        }
        let (name, columns, marks) = (self.name(table), names(table), statement.sql);
        format!("INSERT INTO {name} ({columns}) VALUES ({marks})")
    }

    /// Adds a row, or replaces the one with its key.
    pub(crate) fn put(self, table: &Table, row: Row) -> Statement {
        let (columns, name) = (names(table), self.name(table));
        let mut statement = self.plain(format!("INSERT INTO {name} ({columns}) VALUES "));
        for (place, (value, (_, kind))) in row.into_iter().zip(table.columns).enumerate() {
            statement.bind(if place > 0 { ", " } else { "(" }, value, *kind);
        }
        let (key, rest) = table.columns.split_at(table.key);
        let key: Vec<&str> = key.iter().map(|(column, _)| *column).collect();
        statement.push(&[") ON CONFLICT (", &key.join(", "), ") DO "]);
        let set: Vec<String> = rest
            .iter()
            .map(|(column, _)| format!("{column} = excluded.{column}"))
            .collect();
        if set.is_empty() {
            statement.push(&["NOTHING"]);
        } else {
            statement.push(&["UPDATE SET ", &set.join(", ")]);
        }
        statement
    }

    /// Changes columns of the row with a key, if it is there.
    pub(crate) fn update(
        self,
        table: &Table,
        key: &[Value],
        changes: impl IntoIterator<Item = (usize, Value)>,
    ) -> Statement {
        let mut statement = self.plain(format!("UPDATE {}", self.name(table)));
        for (place, (column, value)) in changes.into_iter().enumerate() {
            let (name, kind) = table.columns[column];
            let begin = if place > 0 { ", " } else { " SET " };
            statement.bind(&format!("{begin}{name} = "), value, kind);
        }
        statement.restrict(table, &Range::of(key));
        statement
    }

    /// Removes the rows of a range, which has no limit.
    pub(crate) fn delete(self, table: &Table, range: &Range) -> Statement {
        let mut statement = self.plain(format!("DELETE FROM {}", self.name(table)));
        statement.restrict(table, range);
        statement
    }
}

impl Statement {
    fn push(&mut self, parts: &[&str]) {
        self.sql.extend(parts.iter().copied());
    }

    /// Adds text, and the mark of a value.
    fn bind(&mut self, text: &str, value: Value, kind: Kind) {
        self.values.push((value, kind));
        let mark = match self.dialect {
            Dialect::Sqlite => "?",
            Dialect::Postgres => "$",
        };
        self.push(&[text, mark, &self.values.len().to_string()]);
    }

    /// Restricts a statement to the rows of a range.
    fn restrict(&mut self, table: &Table, range: &Range) {
        let next = range.prefix.len();
        let behind = if range.is_backwards { "<" } else { ">" };
        let time = table.time.unwrap_or_default();
        let key = range.prefix.iter().cloned().enumerate();
        let conditions = key
            .map(|(column, value)| (column, "=", value))
            .chain(range.after.clone().map(|value| (next, behind, value)))
            .chain(range.from.clone().map(|value| (next, ">=", value)))
            .chain(range.up_to.clone().map(|value| (next, "<=", value)))
            .chain(range.due.map(|until| (time, "<=", until.into())))
            .chain(range.since.map(|since| (time, ">=", since.into())));
        let mut word = " WHERE ";
        for (column, comparison, value) in conditions {
            let (name, kind) = table.columns[column];
            self.bind(&format!("{word}{name} {comparison} "), value, kind);
            word = " AND ";
        }
        // As the index of the marked rows has it, so that the database uses the index.
        let Some(marked) = table.marked.filter(|_| range.is_marked) else {
            return;
        };
        let (column, condition) = match (marked, self.dialect) {
            (Marked::Positive(column), _) => (column, " > 0"),
            (Marked::Flag(column, true), Dialect::Sqlite) => (column, " = 1"),
            (Marked::Flag(column, false), Dialect::Sqlite) => (column, " = 0"),
            (Marked::Flag(column, true), Dialect::Postgres) => (column, ""),
            (Marked::Flag(column, false), Dialect::Postgres) => (column, " = FALSE"),
        };
        self.push(&[word, table.columns[column].0, condition]);
    }
}

/// Returns the names of a table's columns.
pub(crate) fn names(table: &Table) -> String {
    let columns: Vec<&str> = table.columns.iter().map(|(name, _)| *name).collect();
    columns.join(", ")
}
