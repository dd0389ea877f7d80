//! Why the database did not do what it was asked, and what is to be done about it.

use tokio_postgres::error::SqlState;

use crate::error::StoreError;

/// A failure of the database.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Another host was in the way. The batch may run again.
    Conflict,
    /// The connection is gone, or the server is not the one that writes. Connect again.
    Lost(String),
    /// It will not get better.
    Fatal(StoreError),
}

impl Trouble {
    /// Returns what an error means that came while `operation` was done.
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
            Self::Conflict => StoreError::Broken {
                operation,
                message: "other hosts were in the way each time it was tried".to_owned(),
            },
            Self::Lost(message) => StoreError::Away { operation, message },
        }
    }
}

/// Returns whether a new connection may succeed: the server restarts, fails over or is too busy.
fn is_passing(code: &SqlState) -> bool {
    code.code().starts_with("08")
        || [
            SqlState::ADMIN_SHUTDOWN,
            SqlState::CRASH_SHUTDOWN,
            SqlState::CANNOT_CONNECT_NOW,
            SqlState::TOO_MANY_CONNECTIONS,
            SqlState::READ_ONLY_SQL_TRANSACTION,
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
            SqlState::IO_ERROR,
        ]
        .contains(code)
}

/// Returns an error as people are told it: without the values that a server may quote.
pub(super) fn explain(error: &tokio_postgres::Error) -> String {
    if let Some(told) = error.as_db_error() {
        return format!("{} ({})", told.message(), told.code().code());
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
