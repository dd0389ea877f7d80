//! The rows of tables.

use host_core::time::Time;
use host_engine::StoreError;
use host_engine::table::{Range, Record, Row, Table};
use rusqlite::{Connection, OptionalExtension as _};

use super::columns::{params, row_of};
use super::doing;
use crate::statement::{Dialect, Statement};

/// Calls `see` with each row that a statement reads.
pub(super) fn each(
    connection: &Connection,
    operation: &'static str,
    statement: &Statement,
    mut see: impl FnMut(Row) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let reading = doing(operation);
    let mut prepared = connection
        .prepare_cached(&statement.sql)
        .map_err(&reading)?;
    let columns = prepared.column_count();
    let values = statement.values.iter().map(|(value, _)| value);
    let mut rows = prepared.query(params(values)).map_err(&reading)?;
    while let Some(row) = rows.next().map_err(&reading)? {
        see(row_of(row, columns).map_err(&reading)?)?;
    }
    Ok(())
}

/// Returns the rows of a range.
pub(super) fn select(
    connection: &Connection,
    table: &'static Table,
    range: &Range,
) -> Result<Vec<Row>, StoreError> {
    let mut rows = Vec::new();
    let statement = Dialect::Sqlite.select(table, range);
    each(connection, table.reading, &statement, |row| {
        rows.push(row);
        Ok(())
    })?;
    Ok(rows)
}

/// Returns the records of a range.
pub(super) fn list<T: Record>(
    connection: &Connection,
    range: &Range,
) -> Result<Vec<T>, StoreError> {
    let rows = select(connection, T::TABLE, range)?.into_iter();
    rows.map(T::from_row).collect()
}

/// Counts the rows of a range.
pub(super) fn count(
    connection: &Connection,
    table: &'static Table,
    range: &Range,
) -> Result<u64, StoreError> {
    let Statement { sql, values, .. } = Dialect::Sqlite.count(table, range);
    let values = values.iter().map(|(value, _)| value);
    connection
        .prepare_cached(&sql)
        .and_then(|mut it| it.query_row(params(values), |row| row.get(0)))
        .map_err(doing(table.reading))
}

/// Returns the earliest time of a row.
pub(super) fn first_time(
    connection: &Connection,
    table: &'static Table,
) -> Result<Option<Time>, StoreError> {
    let (name, time) = (table.name, table.columns[table.time.unwrap_or_default()].0);
    let sql = format!("SELECT {time} FROM {name} WHERE {time} IS NOT NULL ORDER BY {time} LIMIT 1");
    connection
        .prepare_cached(&sql)
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)).optional())
        .map(|at| at.map(Time))
        .map_err(doing(table.reading))
}
