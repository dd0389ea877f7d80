//! The rows of tables of one open transaction, for the engine.

use host_engine::StoreError;
use host_engine::table::{Range, Row, Table, TableRows, Value};
use tokio_postgres::Row as SqlRow;

use super::client::Client;
use super::pipeline::Pipeline;
use super::rows::Transaction;
use super::tables::{HeldRows, add, counted, rows_of};
use super::trouble::Trouble;
use crate::statement::{Dialect, Statement};

impl Transaction<'_> {
    /// Writes what has changed of tables, then runs a statement, in the same round trip.
    async fn flush_tables_and_ask(
        client: &Client,
        held: &mut HeldRows,
        operation: &'static str,
        statement: Statement,
    ) -> Result<Vec<SqlRow>, Trouble> {
        let mut pipeline = Pipeline::new(client);
        held.flush(&mut pipeline).await?;
        add(&mut pipeline, operation, statement).await?;
        Ok(pipeline.run().await?.pop().unwrap_or_default())
    }
}

impl TableRows for Transaction<'_> {
    fn get_rows(
        &mut self,
        table: &'static Table,
        keys: Vec<Row>,
    ) -> Result<Vec<Option<Row>>, StoreError> {
        self.wait(async |client, overlay| {
            overlay.tables.lock(client, table, &keys).await?;
            let rows = keys.iter().map(|key| overlay.tables.get(table, key));
            Ok(rows.collect())
        })
    }

    fn list_rows(&mut self, table: &'static Table, range: Range) -> Result<Vec<Row>, StoreError> {
        let operation = table.reading;
        let statement = Dialect::Postgres.select(table, &range);
        self.wait(async |client, overlay| {
            let held = &mut overlay.tables;
            let rows = Self::flush_tables_and_ask(client, held, operation, statement).await?;
            rows_of(operation, &rows)
        })
    }

    fn count_rows(&mut self, table: &'static Table, range: Range) -> Result<u64, StoreError> {
        let operation = table.reading;
        let statement = Dialect::Postgres.count(table, &range);
        self.wait(async |client, overlay| {
            let held = &mut overlay.tables;
            let rows = Self::flush_tables_and_ask(client, held, operation, statement).await?;
            Ok(counted(&[rows]))
        })
    }

    fn put_row(&mut self, table: &'static Table, row: Row) -> Result<(), StoreError> {
        self.overlay.tables.put(table, row);
        Ok(())
    }

    fn update_row(
        &mut self,
        table: &'static Table,
        key: Row,
        changes: Vec<(usize, Value)>,
    ) -> Result<(), StoreError> {
        self.overlay.tables.update(table, key, changes);
        Ok(())
    }

    fn delete_row(&mut self, table: &'static Table, key: Row) -> Result<(), StoreError> {
        self.overlay.tables.delete(table, key);
        Ok(())
    }

    fn delete_rows(&mut self, table: &'static Table, range: Range) -> Result<u64, StoreError> {
        let mut statement = Dialect::Postgres.delete(table, &range);
        statement.sql += " RETURNING TRUE";
        self.wait(async |client, overlay| {
            let held = &mut overlay.tables;
            let operation = table.writing;
            let gone = Self::flush_tables_and_ask(client, held, operation, statement).await?;
            held.forget(table);
            Ok(gone.len() as u64)
        })
    }
}
