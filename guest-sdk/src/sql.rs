//! Databases that the manifest names.

use std::fmt;
use std::rc::Rc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::services::Services;

/// A database that the manifest names: `[[handlers.NAME.sql]]`. The host signs in; the handler sees no password.
#[derive(Clone)]
pub struct Sql {
    services: Rc<dyn Services>,
    name: String,
}

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

/// Statements that take effect together.
pub struct Transaction {
    services: Rc<dyn Services>,
    number: u32,
}

impl Transaction {
    /// Runs a statement of the transaction. See [`Sql::query`].
    pub fn query(&self, statement: &str, params: impl Serialize) -> Result<Rows, SqlError> {
        let params = to_json(params)?;
        rows(
            self.services
                .sql_query_in(self.number, statement, &params)?,
        )
    }
}

impl Sql {
    pub(crate) fn new(services: Rc<dyn Services>, name: &str) -> Self {
        let name = name.to_owned();
        Self { services, name }
    }

    /// Runs one statement in a transaction of its own. `params` is a list or a tuple with the values of `$1`, `$2` and so on.
    pub fn query(&self, statement: &str, params: impl Serialize) -> Result<Rows, SqlError> {
        let params = to_json(params)?;
        rows(self.services.sql_query(&self.name, statement, &params)?)
    }

    /// Runs statements that take effect together: if the closure returns an error, none of them does.
    pub fn transaction<T, E: From<SqlError>>(
        &self,
        run: impl FnOnce(&Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        let transaction = Transaction {
            services: Rc::clone(&self.services),
            number: self.services.sql_begin(&self.name)?,
        };
        let end = |commits| self.services.sql_end(transaction.number, commits);
        match run(&transaction) {
            Ok(value) => {
                end(true)?;
                Ok(value)
            }
            Err(error) => {
                // What the handler returns says more.
                let _ = end(false);
                Err(error)
            }
        }
    }
}

fn to_json(params: impl Serialize) -> Result<String, SqlError> {
    let invalid = |message: String| SqlError {
        kind: SqlErrorKind::InvalidRequest,
        code: None,
        message,
    };
    let json = serde_json::to_string(&params);
    let json = json.map_err(|error| invalid(format!("the parameters are not JSON: {error}")))?;
    match &*json {
        "null" => Ok("[]".to_owned()),
        _ if json.starts_with('[') => Ok(json),
        _ => Err(invalid(
            "the parameters must be a list or a tuple".to_owned(),
        )),
    }
}

fn rows((columns, rows, affected): SqlAnswer) -> Result<Rows, SqlError> {
    let values = serde_json::from_str(&rows).map_err(|error| SqlError {
        kind: SqlErrorKind::Unreachable,
        code: None,
        message: format!("the host sent rows that are not JSON: {error}"),
    })?;
    Ok(Rows {
        columns,
        values,
        affected,
    })
}

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

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;
    use crate::{Error, MockHost};

    #[derive(Debug, PartialEq, Deserialize)]
    struct Price {
        name: String,
        price: String,
    }

    fn shop() -> MockHost {
        MockHost::new().with_sql("shop", |statement, params| match statement {
            "SELECT name, price FROM prices WHERE name = $1" => Ok(Rows {
                columns: vec!["name".to_owned(), "price".to_owned()],
                values: vec![vec![params[0].clone(), json!("1.10")]],
                affected: 1,
            }),
            "BEGIN" | "COMMIT" | "ROLLBACK" => Ok(Rows::default()),
            _ => Err(SqlError {
                kind: SqlErrorKind::Refused,
                code: Some("42601".to_owned()),
                message: "syntax error".to_owned(),
            }),
        })
    }

    #[test]
    fn rows_become_structs() {
        let ctx = shop().ctx();
        let rows = ctx
            .sql("shop")
            .query("SELECT name, price FROM prices WHERE name = $1", ["tea"]);
        let price = Price {
            name: "tea".to_owned(),
            price: "1.10".to_owned(),
        };
        assert_eq!(rows.unwrap().to::<Price>().unwrap(), [price]);
        let error = ctx.sql("shop").query("SELEC", ()).unwrap_err();
        assert_eq!(error.to_string(), "syntax error (42601)");
        let other = ctx.sql("other").query("SELECT 1", ()).unwrap_err();
        assert_eq!(other.kind, SqlErrorKind::NotGranted);
        let params = ctx
            .sql("shop")
            .query("SELECT 1", json!({"a": 1}))
            .unwrap_err();
        assert_eq!(params.kind, SqlErrorKind::InvalidRequest);
    }

    #[test]
    fn a_transaction_ends_as_its_closure_does() {
        let host = shop();
        let database = host.ctx().sql("shop");
        database.transaction(|_| Ok::<_, Error>(())).unwrap();
        database
            .transaction(|tx| tx.query("SELEC", ()).map(|_| ()))
            .unwrap_err();
        let statements: Vec<String> = host.statements().into_iter().map(|(_, it)| it).collect();
        assert_eq!(
            statements,
            ["BEGIN", "COMMIT", "BEGIN", "SELEC", "ROLLBACK"]
        );
    }
}
