//! The values of a row, as PostgreSQL keeps them.

use host_engine::table::{Row, Value};
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

type Error = Box<dyn std::error::Error + Sync + Send>;

/// A value of a row.
#[derive(Debug)]
pub(super) struct Column<V>(pub(super) V);

impl<'a> FromSql<'a> for Column<Value> {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Error> {
        Ok(Self(match *ty {
            Type::INT2 => Value::Int(i16::from_sql(ty, raw)?.into()),
            Type::INT4 => Value::Int(i32::from_sql(ty, raw)?.into()),
            Type::INT8 => Value::Int(i64::from_sql(ty, raw)?),
            Type::BOOL => Value::Int(bool::from_sql(ty, raw)?.into()),
            Type::TEXT => Value::Text(String::from_sql(ty, raw)?),
            _ => Value::Bytes(raw.to_owned()),
        }))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Error> {
        Ok(Self(Value::Null))
    }

    fn accepts(ty: &Type) -> bool {
        [
            Type::INT2,
            Type::INT4,
            Type::INT8,
            Type::BOOL,
            Type::TEXT,
            Type::BYTEA,
            Type::UUID,
        ]
        .contains(ty)
    }
}

impl ToSql for Column<&Value> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Error> {
        match self.0 {
            Value::Null => Ok(IsNull::Yes),
            Value::Int(number) => match *ty {
                Type::INT2 => i16::try_from(*number)?.to_sql(ty, out),
                Type::INT4 => i32::try_from(*number)?.to_sql(ty, out),
                Type::BOOL => (*number != 0).to_sql(ty, out),
                _ => number.to_sql(ty, out),
            },
            Value::Text(text) => text.to_sql(ty, out),
            // The bytes of an id are those of a uuid.
            Value::Bytes(bytes) => bytes.to_sql(ty, out),
        }
    }

    fn accepts(ty: &Type) -> bool {
        <Column<Value> as FromSql<'_>>::accepts(ty)
    }

    to_sql_checked!();
}

/// Returns the values of a row.
pub(super) fn row_of(row: &tokio_postgres::Row) -> Result<Row, tokio_postgres::Error> {
    let values = (0..row.len()).map(|column| row.try_get(column).map(|Column(value)| value));
    values.collect()
}
