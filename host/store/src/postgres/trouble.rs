//! Why a statement failed, and whether to retry, reconnect or give up.

use host_engine::StoreError;
use tokio_postgres::error::SqlState;

use super::target::Target;

/// What a conflict is called in messages.
pub(super) const CONFLICT: &str = "it conflicted with other hosts";

/// A failure of the database.
#[derive(Debug)]
pub(super) enum Trouble {
    /// A conflict with another host. The batch may run again.
    Conflict,
    /// The connection is gone, or the server is read-only. Reconnect.
    Lost(String),
    /// The server did not carry out a statement, because of its values or its size. Others may succeed.
    Refused(String),
    /// Permanent.
    Fatal(StoreError),
}

impl Trouble {
    /// Classifies an error during `operation`.
    pub(super) fn of(operation: &'static str, error: &tokio_postgres::Error) -> Self {
        let Some(code) = error.code() else {
            return Self::Lost(explain(error));
        };
        match *code {
            SqlState::T_R_SERIALIZATION_FAILURE
            | SqlState::T_R_DEADLOCK_DETECTED
            | SqlState::LOCK_NOT_AVAILABLE => Self::Conflict,
            SqlState::DISK_FULL => Self::Fatal(StoreError::Full),
            _ if is_passing(code) => Self::Lost(explain(error)),
            _ if concerns_values(code) => Self::Refused(explain(error)),
            SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => {
                Self::Fatal(StoreError::Damaged {
                    what: format!("the database (while trying to {operation})"),
                    message: explain(error),
                })
            }
            _ => Self::Fatal(StoreError::Broken {
                operation,
                message: explain(error),
            }),
        }
    }

    pub(super) fn into_error(self, operation: &'static str) -> StoreError {
        match self {
            Self::Fatal(error) => error,
            Self::Conflict => StoreError::Failing {
                operation,
                message: CONFLICT.to_owned(),
            },
            Self::Refused(message) => StoreError::Failing { operation, message },
            Self::Lost(message) => StoreError::Away { operation, message },
        }
    }
}

/// Returns whether a new connection may succeed: the server restarts, fails over, is too busy, or has ended the session.
fn is_passing(code: &SqlState) -> bool {
    // `transaction_timeout` of PostgreSQL 17.
    const TRANSACTION_TIMEOUT: &str = "25P04";
    ["08", "57P", TRANSACTION_TIMEOUT]
        .iter()
        .any(|start| code.code().starts_with(start))
        || [
            SqlState::TOO_MANY_CONNECTIONS,
            SqlState::READ_ONLY_SQL_TRANSACTION,
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
            SqlState::IO_ERROR,
        ]
        .contains(code)
}

/// Returns what an operator can do about an error.
fn advice(code: &SqlState) -> &'static str {
    match *code {
        SqlState::READ_ONLY_SQL_TRANSACTION => {
            "; write the address of the primary, such as postgres://HOST1,HOST2/DATABASE?target_session_attrs=read-write, \
             or set default_transaction_read_only to off for the role and the database"
        }
        SqlState::TOO_MANY_CONNECTIONS => {
            "; a host needs up to twelve: raise max_connections of the server, or CONNECTION LIMIT of the role or the database"
        }
        SqlState::QUERY_CANCELED => {
            "; if that happens again, set statement_timeout of the role and the database to 0"
        }
        _ => "",
    }
}

/// Returns whether a statement failed because of its values, its size or its time.
fn concerns_values(code: &SqlState) -> bool {
    ["22", "54"]
        .iter()
        .any(|class| code.code().starts_with(class))
        || [SqlState::OUT_OF_MEMORY, SqlState::QUERY_CANCELED].contains(code)
}

/// Returns an error as users see it: without the values that a server may quote.
pub(super) fn explain(error: &tokio_postgres::Error) -> String {
    if let Some(reported) = error.as_db_error() {
        let (message, code) = (reported.message(), reported.code());
        return format!("{message} ({}){}", code.code(), advice(code));
    }
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        source = inner.source();
    }
    text
}

/// The operation that an error names while connecting.
pub(super) const CONNECT: &str = "connect to the database";

/// Classifies an error while connecting to `target`.
pub(super) fn connecting(target: &Target, error: &tokio_postgres::Error) -> Trouble {
    let message = format!("{}: {}", target.with_origin(), refusal(target, error));
    match Trouble::of(CONNECT, error) {
        Trouble::Lost(_) => Trouble::Lost(message),
        Trouble::Fatal(StoreError::Broken { operation, .. }) => {
            Trouble::Fatal(StoreError::Broken { operation, message })
        }
        other => other,
    }
}

/// Explains why there is no connection and what to do next. Leaves out the server's own text where it may
/// name the user.
fn refusal(target: &Target, error: &tokio_postgres::Error) -> String {
    let text = explain(error);
    match error.code() {
        Some(&SqlState::INVALID_PASSWORD) => {
            "the server refused the password (28P01); correct it in the address, in store.url_file or in \
             the file of PGPASSFILE"
                .to_owned()
        }
        Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION) => {
            "the server refused the user (28000); check that the user exists, and that the server's \
             pg_hba.conf admits it from here, with or without TLS"
                .to_owned()
        }
        Some(&SqlState::INVALID_CATALOG_NAME) => {
            let name = target.database();
            format!("{text}; create it with `createdb {name}`, or correct the address")
        }
        Some(_) => text,
        None if text.contains("password missing") => {
            "the server requires a password; put the address with the password into store.url_file, or \
             add a line to the file of PGPASSFILE"
                .to_owned()
        }
        None => match text.strip_prefix("error connecting to server: ") {
            Some(cause) => format!("{cause}; check that the server is running and that host and port are \
                right"),
            None => text,
        },
    }
}

/// Converts an error into a [`StoreError`] that says what was being done.
pub(super) fn doing(
    operation: &'static str,
) -> impl Fn(tokio_postgres::Error) -> StoreError + Copy {
    move |error| Trouble::of(operation, &error).into_error(operation)
}

pub(super) fn damaged(what: impl Into<String>, message: impl Into<String>) -> StoreError {
    StoreError::Damaged {
        what: what.into(),
        message: message.into(),
    }
}

/// Says that a record cannot be read.
pub(super) fn unreadable(what: impl Into<String>, message: &impl ToString) -> StoreError {
    StoreError::Unreadable {
        what: what.into(),
        message: message.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_the_server_has_ended_is_opened_again() {
        for code in [
            "57P01", "57P02", "57P03", "57P05", "25P03", "25P04", "08006", "53300", "25006",
        ] {
            assert!(is_passing(&SqlState::from_code(code)), "{code}");
        }
        for code in ["42501", "57014", "25001", "23505"] {
            assert!(!is_passing(&SqlState::from_code(code)), "{code}");
        }
    }
}
