//! What a table is: a cold thing, described once. Every store keeps the rows of all tables in the same way.

mod fields;
mod range;
mod rows;

use host_core::name::Name;
use host_core::state::Space;
use host_core::time::Time;
use uuid::Uuid;

use crate::StoreError;

pub use self::fields::Fields;
pub(crate) use self::fields::json;
pub use self::range::{Range, Select};
pub use self::rows::TableRows;

/// A value of a row, the same in every store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// The values of all columns.
pub type Row = Vec<Value>;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Int,
    Flag,
    Text,
    /// A record as JSON.
    Json,
    Bytes,
    /// The bytes of a UUID.
    Id,
}

/// Which rows are marked. An index has them.
#[derive(Clone, Copy, Debug)]
pub enum Marked {
    /// Those whose flag, in this column, has this value.
    Flag(usize, bool),
    /// Those with a number above 0 in this column.
    Positive(usize),
}

/// A kind of rows.
#[derive(Debug)]
pub struct Table {
    /// Its name in `SQLite`. In `PostgreSQL` it begins with `host_`.
    pub name: &'static str,
    /// What one row is, for messages.
    pub one: &'static str,
    /// What its rows are, for messages.
    pub many: &'static str,
    pub reading: &'static str,
    pub writing: &'static str,
    pub columns: &'static [(&'static str, Kind)],
    /// How many of the columns, from the first, are the key.
    pub key: usize,
    /// The column with the time at which a row is due, or was made.
    pub time: Option<usize>,
    pub marked: Option<Marked>,
}

/// Describes a table: its name, one and many of its rows, how many columns are the key, and its columns.
macro_rules! table {
    ($name:literal, $one:literal, $many:literal, $key:literal, [$($column:ident: $kind:ident),+ $(,)?]) => {
        $crate::table::Table::new(
            [$name, $one, $many, concat!("read ", $many), concat!("write ", $many)],
            &[$((stringify!($column), $crate::table::Kind::$kind)),+],
            $key,
        )
    };
}
pub(crate) use table;

impl Table {
    pub(crate) const fn new(
        [name, one, many, reading, writing]: [&'static str; 5],
        columns: &'static [(&'static str, Kind)],
        key: usize,
    ) -> Self {
        Self {
            name,
            one,
            many,
            reading,
            writing,
            columns,
            key,
            time: None,
            marked: None,
        }
    }

    /// Has a time in this column.
    pub(crate) const fn timed(mut self, column: usize) -> Self {
        self.time = Some(column);
        self
    }

    pub(crate) const fn marked(mut self, marked: Marked) -> Self {
        self.marked = Some(marked);
        self
    }

    /// Names a row for messages.
    pub fn name_of(&self, row: &[Value]) -> String {
        let mut name = self.one.to_owned();
        for (value, (_, kind)) in row.iter().zip(self.columns).take(self.key) {
            name.push(' ');
            match value {
                Value::Null => {}
                Value::Int(number) => name += &number.to_string(),
                Value::Text(text) => name += text,
                Value::Bytes(bytes) => match Uuid::from_slice(bytes) {
                    Ok(id) if *kind == Kind::Id => name += &id.to_string(),
                    _ => name.extend(bytes.iter().map(|byte| format!("{byte:02x}"))),
                },
            }
        }
        name
    }
}

/// A thing that is kept as a row of a table.
pub trait Record: Sized {
    const TABLE: &'static Table;

    /// What names one.
    type Key<'k>;

    /// Returns the columns of a key.
    fn key(key: Self::Key<'_>) -> Row;

    /// Returns the row to keep.
    fn to_row(&self) -> Result<Row, StoreError>;

    /// Reads a row.
    fn from_row(row: Row) -> Result<Self, StoreError>;
}

/// Makes a row of values.
macro_rules! row {
    ($($value:expr),* $(,)?) => {
        vec![$($crate::table::Value::from($value)),*]
    };
}
pub(crate) use row;

macro_rules! values {
    ($($from:ty => |$it:ident| $value:expr;)+) => {$(
        impl From<$from> for Value {
            fn from($it: $from) -> Self {
                $value
            }
        }
    )+};
}

values! {
    i64 => |number| Self::Int(number);
    u64 => |number| Self::Int(number.cast_signed());
    u32 => |number| Self::Int(number.into());
    bool => |flag| Self::Int(flag.into());
    Time => |time| Self::Int(time.0);
    &str => |text| Self::Text(text.to_owned());
    String => |text| Self::Text(text);
    &Name => |name| Self::Text(name.to_string());
    &Space => |space| Self::Text(space.to_string());
    &[u8] => |bytes| Self::Bytes(bytes.to_vec());
    &[u8; 32] => |bytes| Self::Bytes(bytes.to_vec());
    Uuid => |id| Self::Bytes(id.as_bytes().to_vec());
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}
