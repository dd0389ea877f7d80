//! Databases that the manifest names.

use std::rc::Rc;

use serde::Serialize;

use crate::limits::check_statement;
use crate::services::Services;
use crate::sql::{Rows, SqlAnswer, SqlError, SqlErrorKind};

/// A database that the manifest names: `[[handlers.NAME.sql]]`. The host signs in; the handler sees no password.
#[derive(Clone)]
pub struct Sql {
    services: Rc<dyn Services>,
    name: String,
}

/// Statements that take effect together.
pub struct Transaction {
    services: Rc<dyn Services>,
    number: u32,
}

impl Transaction {
    /// Runs a statement of the transaction. See [`Sql::query`].
    pub fn query(&self, statement: &str, params: impl Serialize) -> Result<Rows, SqlError> {
        let params = to_json(params)?;
        check_statement("", statement, &params)?;
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
        check_statement(&self.name, statement, &params)?;
        rows(self.services.sql_query(&self.name, statement, &params)?)
    }

    /// Runs statements that take effect together: if the closure returns an error, none of them does.
    pub fn transaction<T, E: From<SqlError>>(
        &self,
        run: impl FnOnce(&Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        check_statement(&self.name, "", "")?;
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
    let written = serde_json::to_string(&params);
    let json = written.map_err(|error| invalid(format!("the parameters are not JSON: {error}")))?;
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
