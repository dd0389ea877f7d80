//! The rows of tables of a store in memory.

use std::collections::BTreeMap;

use host_engine::StoreError;
use host_engine::table::{Range, Row, Table, TableRows, Value};

use super::Model;

/// The rows of all tables, by the tables' names and their keys.
pub(super) type Rows = BTreeMap<&'static str, BTreeMap<Row, Row>>;

impl Model {
    /// Returns the rows of a range.
    pub(super) fn rows(&self, table: &'static Table, range: &Range) -> Vec<Row> {
        let all = self
            .tables
            .get(table.name)
            .into_iter()
            .flat_map(BTreeMap::values)
            .cloned();
        let mut rows: Vec<Row> = all.filter(|row| range.has(table, row)).collect();
        range.sort(table, &mut rows);
        rows.truncate(range.most());
        rows
    }
}

impl TableRows for Model {
    fn get_rows(
        &mut self,
        table: &'static Table,
        keys: Vec<Row>,
    ) -> Result<Vec<Option<Row>>, StoreError> {
        let rows = self.tables.entry(table.name).or_default();
        Ok(keys.iter().map(|key| rows.get(key).cloned()).collect())
    }

    fn list_rows(&mut self, table: &'static Table, range: Range) -> Result<Vec<Row>, StoreError> {
        Ok(self.rows(table, &range))
    }

    fn count_rows(&mut self, table: &'static Table, range: Range) -> Result<u64, StoreError> {
        Ok(self.rows(table, &range).len() as u64)
    }

    fn put_row(&mut self, table: &'static Table, row: Row) -> Result<(), StoreError> {
        let key = row[..table.key].to_vec();
        self.tables.entry(table.name).or_default().insert(key, row);
        Ok(())
    }

    fn update_row(
        &mut self,
        table: &'static Table,
        key: Row,
        changes: Vec<(usize, Value)>,
    ) -> Result<(), StoreError> {
        let rows = self.tables.entry(table.name).or_default();
        if let Some(row) = rows.get_mut(&key) {
            for (column, value) in changes {
                row[column] = value;
            }
        }
        Ok(())
    }

    fn delete_row(&mut self, table: &'static Table, key: Row) -> Result<(), StoreError> {
        self.tables.entry(table.name).or_default().remove(&key);
        Ok(())
    }

    fn delete_rows(&mut self, table: &'static Table, range: Range) -> Result<u64, StoreError> {
        let rows = self.tables.entry(table.name).or_default();
        let before = rows.len();
        rows.retain(|_, row| !range.has(table, row));
        Ok((before - rows.len()) as u64)
    }
}
