//! What statements for databases return.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// What a statement returned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The values of each row. Booleans, integers, floating-point numbers, JSON and arrays of these are values of JSON; all
    /// other types, such as `numeric` and `timestamptz`, are strings as the database writes them.
    pub values: Vec<Vec<Value>>,
    /// How many rows the statement returned or changed.
    pub affected: u32,
}

impl Rows {
    /// Returns each row as a `T`, whose fields have the names of the columns.
    pub fn to<T: DeserializeOwned>(&self) -> Result<Vec<T>, serde_json::Error> {
        let rows = self.values.iter().map(|row| {
            let fields = self.columns.iter().cloned().zip(row.iter().cloned());
            serde_json::from_value(Value::Object(fields.collect::<Map<_, _>>()))
        });
        rows.collect()
    }
}

/// Why a statement returned nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlError {
    /// What went wrong.
    pub kind: SqlErrorKind,
    /// The SQLSTATE, if the database answered: `23505` for a unique key that exists already.
    pub code: Option<String>,
    /// One sentence for a person.
    pub message: String,
}

/// What went wrong with a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlErrorKind {
    /// The database answered with an error.
    Refused,
    /// The manifest does not grant the database.
    NotGranted,
    /// The statement or its parameters are invalid, or the transaction is over.
    InvalidRequest,
    /// The database cannot be reached, or does not let the host sign in.
    Unreachable,
    /// It takes too long to connect.
    TimedOut,
    /// The statement or the rows are too large.
    TooLarge,
    /// The attempt has used up what the manifest grants.
    LimitReached,
    /// The host cannot do it now; another attempt may help.
    Unavailable,
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.code {
            Some(code) => write!(f, "{} ({code})", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for SqlError {}

/// The columns, the rows as JSON, and how many there are.
pub(crate) type SqlAnswer = (Vec<String>, String, u32);

#[cfg(target_family = "wasm")]
mod imports {
    use super::{SqlAnswer, SqlError, SqlErrorKind};
    use crate::bindings::host::jobs::sql;

    /// Returns what the host has answered.
    pub(crate) fn from_host(answer: Result<sql::Rows, sql::Error>) -> Result<SqlAnswer, SqlError> {
        let sql::Rows {
            columns,
            rows,
            affected,
        } = answer?;
        Ok((columns, rows, affected))
    }

    impl From<sql::Error> for SqlError {
        fn from(error: sql::Error) -> Self {
            let kind = match error.kind {
                sql::ErrorKind::Refused => SqlErrorKind::Refused,
                sql::ErrorKind::NotGranted => SqlErrorKind::NotGranted,
                sql::ErrorKind::InvalidRequest => SqlErrorKind::InvalidRequest,
                sql::ErrorKind::Unreachable => SqlErrorKind::Unreachable,
                sql::ErrorKind::TimedOut => SqlErrorKind::TimedOut,
                sql::ErrorKind::TooLarge => SqlErrorKind::TooLarge,
                sql::ErrorKind::LimitReached => SqlErrorKind::LimitReached,
                sql::ErrorKind::Unavailable => SqlErrorKind::Unavailable,
            };
            Self {
                kind,
                code: error.code,
                message: error.message,
            }
        }
    }
}

#[cfg(target_family = "wasm")]
pub(crate) use imports::from_host;
