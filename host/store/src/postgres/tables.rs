//! The rows of tables. A batch locks those that it reads by their keys, keeps them, and writes what has changed of them at its
//! end.

use std::collections::BTreeMap;

use host_engine::StoreError;
use host_engine::table::{Kind, Range, Record, Row, Select, Table, Value};
use tokio_postgres::Row as SqlRow;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::client::Client;
use super::columns::{Column, row_of};
use super::pipeline::{Pipeline, Value as Param};
use super::trouble::Trouble;
use super::typed::Typed;
use crate::statement::{Dialect, Statement};

/// A value of a column of this kind.
#[derive(Debug)]
struct ColumnValue(Value, Kind);

impl ToSql for ColumnValue {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        Column(&self.0).to_sql(ty, out)
    }

    fn accepts(ty: &Type) -> bool {
        <Column<&Value> as ToSql>::accepts(ty)
    }

    to_sql_checked!();
}

impl Typed for ColumnValue {
    fn kind(&self) -> Type {
        match self.1 {
            Kind::Int => Type::INT8,
            Kind::Flag => Type::BOOL,
            Kind::Text | Kind::Json => Type::TEXT,
            Kind::Bytes => Type::BYTEA,
            Kind::Id => Type::UUID,
        }
    }
}

pub(super) fn rows_of(operation: &'static str, rows: &[SqlRow]) -> Result<Vec<Row>, Trouble> {
    let rows: Result<_, _> = rows.iter().map(row_of).collect();
    rows.map_err(|error| Trouble::of(operation, &error))
}

pub(super) async fn add(
    pipeline: &mut Pipeline<'_>,
    operation: &'static str,
    Statement { sql, values, .. }: Statement,
) -> Result<(), Trouble> {
    let params = values
        .into_iter()
        .map(|(value, kind)| Box::new(ColumnValue(value, kind)) as Param);
    pipeline.add(operation, sql, params.collect()).await
}

/// Returns the rows of each of these ranges.
pub(super) async fn select(client: &Client, ranges: &[Select]) -> Result<Vec<Vec<Row>>, Trouble> {
    let mut pipeline = Pipeline::new(client);
    for Select { table, range } in ranges {
        let statement = Dialect::Postgres.select(table, range);
        add(&mut pipeline, table.reading, statement).await?;
    }
    let answers = pipeline.run().await?.into_iter().zip(ranges);
    let rows = answers.map(|(rows, it)| rows_of(it.table.reading, &rows));
    rows.collect()
}

/// Returns the records of a range.
pub(super) async fn list<T: Record>(client: &Client, range: Range) -> Result<Vec<T>, StoreError> {
    let table = T::TABLE;
    let rows = select(client, &[Select { table, range }])
        .await
        .map_err(|trouble| trouble.into_error(table.reading))?;
    rows.into_iter().flatten().map(T::from_row).collect()
}

/// Counts the rows of a range.
pub(super) async fn count(client: &Client, it: &Select) -> Result<u64, Trouble> {
    let mut pipeline = Pipeline::new(client);
    let statement = Dialect::Postgres.count(it.table, &it.range);
    add(&mut pipeline, it.table.reading, statement).await?;
    Ok(counted(&pipeline.run().await?))
}

pub(super) fn counted(answers: &[Vec<SqlRow>]) -> u64 {
    let row = answers.last().and_then(|rows| rows.first());
    row.map_or(0, |row| row.get::<_, i64>(0).unsigned_abs())
}

/// A table's name and the key of a row.
type Place = (&'static str, Row);

/// The rows that a batch has read by their keys, or changed.
#[derive(Default)]
pub(super) struct HeldRows(BTreeMap<Place, HeldRow>);

struct HeldRow {
    table: &'static Table,
    /// `None` if there is none.
    row: Option<Row>,
    change: Option<RowChange>,
}

/// What is to be written of a row.
enum RowChange {
    All,
    Columns(BTreeMap<usize, Value>),
    Deleted,
}

impl HeldRows {
    /// Reads and locks those of the rows with these keys that the batch has not read yet, in this order.
    pub(super) async fn lock(
        &mut self,
        client: &Client,
        table: &'static Table,
        keys: &[Row],
    ) -> Result<(), Trouble> {
        let is_unknown = |key: &&Row| !self.0.contains_key(&(table.name, (*key).clone()));
        let unknown: Vec<&Row> = keys.iter().filter(is_unknown).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let mut pipeline = Pipeline::new(client);
        for key in &unknown {
            let mut statement = Dialect::Postgres.select(table, &Range::of((*key).clone()));
            statement.sql += " FOR UPDATE";
            add(&mut pipeline, table.reading, statement).await?;
        }
        for (key, rows) in unknown.into_iter().zip(pipeline.run().await?) {
            let held = HeldRow {
                table,
                row: rows_of(table.reading, &rows)?.pop(),
                change: None,
            };
            self.0.insert((table.name, key.clone()), held);
        }
        Ok(())
    }

    pub(super) fn get(&self, table: &'static Table, key: &Row) -> Option<Row> {
        self.0.get(&(table.name, key.clone()))?.row.clone()
    }

    pub(super) fn put(&mut self, table: &'static Table, row: Row) {
        let held = HeldRow {
            table,
            row: Some(row.clone()),
            change: Some(RowChange::All),
        };
        let key = row.into_iter().take(table.key);
        self.0.insert((table.name, key.collect()), held);
    }

    /// Changes columns of a row that was read. One that is not there stays away.
    pub(super) fn update(&mut self, table: &'static Table, key: Row, changes: Vec<(usize, Value)>) {
        let Some(held) = self.0.get_mut(&(table.name, key)) else {
            return;
        };
        let Some(row) = &mut held.row else { return };
        for (column, value) in changes {
            row[column].clone_from(&value);
            match held
                .change
                .get_or_insert(RowChange::Columns(BTreeMap::new()))
            {
                RowChange::Columns(columns) => drop(columns.insert(column, value)),
                RowChange::All | RowChange::Deleted => {}
            }
        }
    }

    pub(super) fn delete(&mut self, table: &'static Table, key: Row) {
        let (row, change) = (None, Some(RowChange::Deleted));
        self.0
            .insert((table.name, key), HeldRow { table, row, change });
    }

    /// Forgets the rows of a table, which must have been written.
    pub(super) fn forget(&mut self, table: &'static Table) {
        self.0.retain(|(name, _), _| *name != table.name);
    }

    /// Adds the statements that write what has changed.
    pub(super) async fn flush(&mut self, pipeline: &mut Pipeline<'_>) -> Result<(), Trouble> {
        for ((_, key), HeldRow { table, row, change }) in &mut self.0 {
            let statement = match (change.take(), row) {
                (Some(RowChange::All), Some(row)) => Dialect::Postgres.put(table, row.clone()),
                (Some(RowChange::Columns(columns)), _) => {
                    Dialect::Postgres.update(table, key, columns)
                }
                (Some(RowChange::Deleted), _) => {
                    Dialect::Postgres.delete(table, &Range::of(key.clone()))
                }
                _ => continue,
            };
            add(pipeline, table.writing, statement).await?;
        }
        Ok(())
    }
}
