//! The rows of tables in an open transaction.

use super::{Range, Record, Row, Table, Value};
use crate::StoreError;

/// The rows of tables. Each store reads and writes those of all tables in the same way.
pub trait TableRows {
    /// Returns the rows with these keys. Other hosts cannot change them until the batch ends.
    fn get_rows(
        &mut self,
        table: &'static Table,
        keys: Vec<Row>,
    ) -> Result<Vec<Option<Row>>, StoreError>;
    /// Returns the rows of a range. Other hosts may change them.
    fn list_rows(&mut self, table: &'static Table, range: Range) -> Result<Vec<Row>, StoreError>;
    fn count_rows(&mut self, table: &'static Table, range: Range) -> Result<u64, StoreError>;
    /// Adds a row, or replaces the one with its key.
    fn put_row(&mut self, table: &'static Table, row: Row) -> Result<(), StoreError>;
    /// Changes columns of a row that was read by its key.
    fn update_row(
        &mut self,
        table: &'static Table,
        key: Row,
        changes: Vec<(usize, Value)>,
    ) -> Result<(), StoreError>;
    fn delete_row(&mut self, table: &'static Table, key: Row) -> Result<(), StoreError>;
    /// Removes the rows of a range, which has no limit. Returns how many.
    fn delete_rows(&mut self, table: &'static Table, range: Range) -> Result<u64, StoreError>;

    /// Returns a record. Other hosts cannot change it until the batch ends.
    fn get<T: Record>(&mut self, key: T::Key<'_>) -> Result<Option<T>, StoreError> {
        let rows = self.get_rows(T::TABLE, vec![T::key(key)])?;
        let row = rows.into_iter().next().flatten();
        row.map(T::from_row).transpose()
    }

    fn list<T: Record>(&mut self, range: Range) -> Result<Vec<T>, StoreError> {
        let rows = self.list_rows(T::TABLE, range)?.into_iter();
        rows.map(T::from_row).collect()
    }

    fn put<T: Record>(&mut self, record: &T) -> Result<(), StoreError> {
        self.put_row(T::TABLE, record.to_row()?)
    }

    fn remove<T: Record>(&mut self, key: T::Key<'_>) -> Result<(), StoreError> {
        self.delete_row(T::TABLE, T::key(key))
    }
}
