//! Values of statements with their types: a statement that the server does not keep needs them each time.

use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

/// A value with its type.
pub(super) trait Typed: ToSql + Sync {
    fn kind(&self) -> Type;
}

/// The values of a statement.
pub(super) type Values<'a> = &'a [&'a dyn Typed];

macro_rules! typed {
    ($($kind:ident: $($rust:ty),+;)+) => {$($(
        impl Typed for $rust {
            fn kind(&self) -> Type {
                Type::$kind
            }
        }
    )+)+};
}

typed! {
    BOOL: bool;
    INT2: i16, Option<i16>;
    INT4: i32;
    INT8: i64, Option<i64>;
    TEXT: String, &str, Option<&str>, Option<String>;
    BYTEA: Vec<u8>, &[u8];
    UUID: Uuid, Option<Uuid>;
    BOOL_ARRAY: Vec<bool>;
    INT2_ARRAY: Vec<i16>;
    INT8_ARRAY: Vec<i64>, Vec<Option<i64>>;
    TEXT_ARRAY: Vec<String>, Vec<Option<String>>;
    BYTEA_ARRAY: Vec<Vec<u8>>, Vec<Option<Vec<u8>>>;
    UUID_ARRAY: Vec<Uuid>, Vec<Option<Uuid>>;
}

/// Returns values for a statement whose types the server knows.
pub(super) fn as_sent(values: Values<'_>) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| *value as _).collect()
}

/// Returns values with their types.
pub(super) fn with_types(values: Values<'_>) -> Vec<(&(dyn ToSql + Sync), Type)> {
    let typed = values.iter().map(|value| (*value as _, value.kind()));
    typed.collect()
}
