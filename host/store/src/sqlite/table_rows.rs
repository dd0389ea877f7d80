//! The rows of tables of one open transaction, for the engine.

use host_engine::StoreError;
use host_engine::table::{Range, Row, Table, TableRows, Value};

use super::columns::params;
use super::doing;
use super::jobs::Transaction;
use super::tables::{count, select};
use crate::statement::{Dialect, Statement};

impl Transaction<'_> {
    /// Runs a statement that writes. Returns how many rows it has changed.
    fn write(&self, table: &'static Table, statement: &Statement) -> Result<u64, StoreError> {
        let values = statement.values.iter().map(|(value, _)| value);
        self.connection
            .prepare_cached(&statement.sql)
            .and_then(|mut it| it.execute(params(values)))
            .map(|changed| changed as u64)
            .map_err(doing(table.writing))
    }
}

impl TableRows for Transaction<'_> {
    fn get_rows(
        &mut self,
        table: &'static Table,
        keys: Vec<Row>,
    ) -> Result<Vec<Option<Row>>, StoreError> {
        let get = |key: Row| Ok(select(self.connection, table, &Range::of(key))?.pop());
        keys.into_iter().map(get).collect()
    }

    fn list_rows(&mut self, table: &'static Table, range: Range) -> Result<Vec<Row>, StoreError> {
        select(self.connection, table, &range)
    }

    fn count_rows(&mut self, table: &'static Table, range: Range) -> Result<u64, StoreError> {
        count(self.connection, table, &range)
    }

    fn put_row(&mut self, table: &'static Table, row: Row) -> Result<(), StoreError> {
        self.write(table, &Dialect::Sqlite.put(table, row))
            .map(drop)
    }

    fn update_row(
        &mut self,
        table: &'static Table,
        key: Row,
        changes: Vec<(usize, Value)>,
    ) -> Result<(), StoreError> {
        let statement = Dialect::Sqlite.update(table, &key, changes);
        self.write(table, &statement).map(drop)
    }

    fn delete_row(&mut self, table: &'static Table, key: Row) -> Result<(), StoreError> {
        self.delete_rows(table, Range::of(key)).map(drop)
    }

    fn delete_rows(&mut self, table: &'static Table, range: Range) -> Result<u64, StoreError> {
        self.write(table, &Dialect::Sqlite.delete(table, &range))
    }
}
