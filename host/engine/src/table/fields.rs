//! Takes a row apart, and names it if a value is not what it should be.

use std::fmt::Display;
use std::str::FromStr;

use host_core::time::Time;
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::{Row, Table, Value};
use crate::StoreError;

/// The values of a row that are still to be read, in the order of its columns.
pub struct Fields {
    table: &'static Table,
    key: Row,
    values: std::vec::IntoIter<Value>,
}

impl Fields {
    pub(crate) fn new(table: &'static Table, row: Row) -> Self {
        Self {
            table,
            key: row.iter().take(table.key).cloned().collect(),
            values: row.into_iter(),
        }
    }

    /// Reports a value that is wrong.
    pub(crate) fn unreadable(&self, reason: &impl Display) -> StoreError {
        StoreError::Unreadable {
            what: self.table.name_of(&self.key),
            message: reason.to_string(),
        }
    }

    fn next(&mut self) -> Value {
        self.values.next().unwrap_or(Value::Null)
    }

    pub(crate) fn skip(&mut self, columns: usize) {
        self.values.by_ref().take(columns).for_each(drop);
    }

    pub(crate) fn int_if_any(&mut self) -> Result<Option<i64>, StoreError> {
        match self.next() {
            Value::Int(number) => Ok(Some(number)),
            Value::Null => Ok(None),
            _ => Err(self.unreadable(&"a column has another value than a number")),
        }
    }

    pub(crate) fn int(&mut self) -> Result<i64, StoreError> {
        self.int_if_any()?
            .ok_or_else(|| self.unreadable(&"a number is missing"))
    }

    pub(crate) fn number<T: TryFrom<i64, Error: Display>>(&mut self) -> Result<T, StoreError> {
        T::try_from(self.int()?).map_err(|error| self.unreadable(&error))
    }

    pub(crate) fn flag(&mut self) -> Result<bool, StoreError> {
        Ok(self.int()? != 0)
    }

    pub(crate) fn time(&mut self) -> Result<Time, StoreError> {
        self.int().map(Time)
    }

    pub(crate) fn text_if_any(&mut self) -> Result<Option<String>, StoreError> {
        match self.next() {
            Value::Text(text) => Ok(Some(text)),
            Value::Null => Ok(None),
            _ => Err(self.unreadable(&"a column has another value than a text")),
        }
    }

    pub(crate) fn text(&mut self) -> Result<String, StoreError> {
        self.text_if_any()?
            .ok_or_else(|| self.unreadable(&"a text is missing"))
    }

    pub(crate) fn parse<T: FromStr<Err: Display>>(&mut self) -> Result<T, StoreError> {
        let text = self.text()?;
        text.parse()
            .map_err(|error| self.unreadable(&format!("{text}: {error}")))
    }

    pub(crate) fn json<T: DeserializeOwned>(&mut self) -> Result<T, StoreError> {
        let text = self.text()?;
        serde_json::from_str(&text).map_err(|error| self.unreadable(&error))
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, StoreError> {
        match self.next() {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(self.unreadable(&"a column has another value than bytes")),
        }
    }

    pub(crate) fn hash(&mut self) -> Result<[u8; 32], StoreError> {
        let hash = <[u8; 32]>::try_from(self.bytes()?);
        hash.map_err(|_| self.unreadable(&"a hash has another length than 32 bytes"))
    }

    pub(crate) fn id(&mut self) -> Result<Uuid, StoreError> {
        Uuid::from_slice(&self.bytes()?).map_err(|error| self.unreadable(&error))
    }
}

/// Returns a record as JSON, for a row of a table.
pub(crate) fn json(table: &'static Table, record: &impl Serialize) -> Result<Value, StoreError> {
    let text = serde_json::to_string(record);
    text.map(Value::Text).map_err(|error| StoreError::Damaged {
        what: format!("a {} to write", table.one),
        message: error.to_string(),
    })
}
