//! The values of a row, as SQLite keeps them.

use host_engine::table::{Row, Value};
use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Params, params_from_iter};

/// A value of a row.
pub(super) struct Column<V>(pub(super) V);

impl FromSql for Column<Value> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(Self(match value {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => Value::Int(number),
            ValueRef::Text(text) => match std::str::from_utf8(text) {
                Ok(text) => Value::Text(text.to_owned()),
                Err(_) => Value::Bytes(text.to_owned()),
            },
            ValueRef::Blob(bytes) => Value::Bytes(bytes.to_owned()),
            ValueRef::Real(_) => return Err(rusqlite::types::FromSqlError::InvalidType),
        }))
    }
}

impl ToSql for Column<&Value> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Value::Null => ValueRef::Null,
            Value::Int(number) => ValueRef::Integer(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// Passes values to a statement.
pub(super) fn params<'v>(values: impl IntoIterator<Item = &'v Value>) -> impl Params {
    params_from_iter(values.into_iter().map(Column))
}

/// Returns the values of a row.
pub(super) fn row_of(row: &rusqlite::Row<'_>, columns: usize) -> rusqlite::Result<Row> {
    let values = (0..columns).map(|column| row.get(column).map(|Column(value)| value));
    values.collect()
}
