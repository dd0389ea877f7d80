//! The entries of the audit.

use super::Entry;
use crate::StoreError;
use crate::table::{Fields, Record, Row, Table, row, table};

/// Each entry has the hash of the one before it.
pub static AUDIT: Table = table!(
    "audit", "entry of the audit", "entries of the audit", 1,
    [number: Int, at: Int, previous: Bytes, record: Text, hash: Bytes]
)
.timed(1);

impl Record for Entry {
    const TABLE: &'static Table = &AUDIT;
    type Key<'k> = u64;

    fn key(number: u64) -> Row {
        row![number]
    }

    fn to_row(&self) -> Result<Row, StoreError> {
        let record = self.record.as_str();
        Ok(row![
            self.number,
            self.at,
            &self.previous,
            record,
            &self.hash
        ])
    }

    fn from_row(row: Row) -> Result<Self, StoreError> {
        let mut fields = Fields::new(&AUDIT, row);
        Ok(Self {
            number: fields.number()?,
            at: fields.time()?,
            previous: fields.hash()?,
            record: fields.text()?,
            hash: fields.hash()?,
        })
    }
}
