//! The services that the host offers to a running handler: the imports of the WIT world, or a mock.

use serde_json::Value;

use crate::request::{HttpError, HttpRequest, HttpResponse};
use crate::sql::{SqlAnswer, SqlError};
use crate::store::{NewJob, StoreError};

/// How urgent a log line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Very detailed, to debug the handler.
    Trace,
    /// Detailed, to debug the handler.
    Debug,
    /// Normal operation.
    Info,
    /// Unexpected, but the handler continues.
    Warn,
    /// Something failed.
    Error,
}

/// A change of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write<'a> {
    pub(crate) key: &'a str,
    /// `None` removes the key.
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) expected: Expected<'a>,
    pub(crate) now: bool,
}

/// What a key must have before it changes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expected<'a> {
    Anything,
    /// This value, or none.
    Exactly(Option<&'a [u8]>),
}

/// What the journal has of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    New,
    /// A checkpoint, as JSON.
    Begun(String),
    /// A result, as JSON.
    Done(String),
    /// A failure, as JSON.
    Failed(String),
}

/// The host as seen by a handler.
pub(crate) trait Services {
    fn cancelled(&self) -> Option<String>;
    fn remaining_ms(&self) -> Option<u32>;
    fn progress(&self, percent: Option<f32>, message: &str);
    fn sleep_ms(&self, ms: u32);
    fn log(&self, level: Level, message: &str, fields: Vec<(String, Value)>);
    fn http(&self, request: &HttpRequest) -> Result<HttpResponse, HttpError>;
    fn enqueue(&self, jobs: &[NewJob], now: bool) -> Result<Vec<String>, StoreError>;
    fn state_get(&self, space: Option<&str>, key: &str) -> Result<Option<Vec<u8>>, StoreError>;
    fn state_set(&self, space: Option<&str>, write: &Write<'_>) -> Result<bool, StoreError>;
    fn state_list(
        &self,
        space: Option<&str>,
        prefix: &str,
        after: Option<&str>,
    ) -> Result<Vec<String>, StoreError>;
    fn hold(&self, limit: &str, ms: u32) -> Result<(), StoreError>;
    fn reveal(&self, name: &str) -> Result<String, StoreError>;
    fn sql_query(
        &self,
        database: &str,
        statement: &str,
        params: &str,
    ) -> Result<SqlAnswer, SqlError>;
    fn sql_begin(&self, database: &str) -> Result<u32, SqlError>;
    fn sql_query_in(
        &self,
        transaction: u32,
        statement: &str,
        params: &str,
    ) -> Result<SqlAnswer, SqlError>;
    fn sql_end(&self, transaction: u32, commits: bool) -> Result<(), SqlError>;
    fn artifact_create(&self, name: &str, content_type: Option<&str>) -> Result<u32, StoreError>;
    fn artifact_write(&self, artifact: u32, content: &[u8]) -> Result<(), StoreError>;
    fn artifact_close(&self, artifact: u32) -> Result<(), StoreError>;
    fn artifact_open(&self, name: &str) -> Result<u32, StoreError>;
    fn artifact_read(&self, artifact: u32, bytes_max: u32) -> Result<Vec<u8>, StoreError>;
    fn step_begin(&self, name: &str) -> Result<Progress, StoreError>;
    fn step_checkpoint(&self, checkpoint: &str) -> Result<(), StoreError>;
    fn step_complete(&self, result: &str) -> Result<(), StoreError>;
    fn step_fail(&self, error: &str) -> Result<(), StoreError>;
}

/// The imports of the component.
#[cfg(target_family = "wasm")]
pub(crate) struct Imports;

#[cfg(target_family = "wasm")]
impl Services for Imports {
    fn cancelled(&self) -> Option<String> {
        crate::bindings::host::jobs::control::cancelled()
    }

    fn remaining_ms(&self) -> Option<u32> {
        crate::bindings::host::jobs::control::remaining_ms()
    }

    fn progress(&self, percent: Option<f32>, message: &str) {
        crate::bindings::host::jobs::control::progress(percent, message);
    }

    fn sleep_ms(&self, ms: u32) {
        crate::bindings::host::jobs::control::sleep_ms(ms);
    }

    fn log(&self, level: Level, message: &str, fields: Vec<(String, Value)>) {
        use crate::bindings::host::jobs::log;
        let level = match level {
            Level::Trace => log::Level::Trace,
            Level::Debug => log::Level::Debug,
            Level::Info => log::Level::Info,
            Level::Warn => log::Level::Warn,
            Level::Error => log::Level::Error,
        };
        let fields: Vec<(String, String)> = fields
            .into_iter()
            .map(|(name, value)| (name, value.to_string()))
            .collect();
        log::write_json(level, message, &fields);
    }

    fn http(&self, request: &HttpRequest) -> Result<HttpResponse, HttpError> {
        use crate::bindings::host::jobs::http::{self, ErrorKind};
        use crate::request::HttpErrorKind;
        let request = request.clone();
        let answer = http::send(&http::Request {
            method: request.method,
            url: request.url,
            headers: request.headers,
            body: request.body,
            timeout_ms: request.timeout_ms,
        });
        match answer {
            Ok(response) => Ok(HttpResponse {
                status: response.status,
                headers: response.headers,
                body: response.body,
            }),
            Err(error) => Err(HttpError {
                kind: match error.kind {
                    ErrorKind::NotGranted => HttpErrorKind::NotGranted,
                    ErrorKind::InvalidRequest => HttpErrorKind::InvalidRequest,
                    ErrorKind::Unreachable => HttpErrorKind::Unreachable,
                    ErrorKind::TimedOut => HttpErrorKind::TimedOut,
                    ErrorKind::TooLarge => HttpErrorKind::TooLarge,
                    ErrorKind::LimitReached => HttpErrorKind::LimitReached,
                    ErrorKind::Unavailable => HttpErrorKind::Unavailable,
                },
                message: error.message,
            }),
        }
    }

    fn enqueue(&self, jobs: &[NewJob], now: bool) -> Result<Vec<String>, StoreError> {
        use crate::bindings::host::jobs::jobs;
        let text = crate::limits::write_jobs(jobs)?;
        let enqueued = if now {
            jobs::enqueue_now(&text)
        } else {
            jobs::enqueue(&text)
        };
        enqueued.map_err(store_error)
    }

    fn state_get(&self, space: Option<&str>, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        crate::bindings::host::jobs::state::get(space, key).map_err(store_error)
    }

    fn state_set(&self, space: Option<&str>, write: &Write<'_>) -> Result<bool, StoreError> {
        use crate::bindings::host::jobs::state;
        let Write {
            key,
            value,
            expected,
            now,
        } = *write;
        let set = match (expected, value, now) {
            (Expected::Exactly(expected), _, false) => {
                state::compare_and_set(space, key, expected, value)
            }
            (Expected::Exactly(expected), _, true) => {
                state::compare_and_set_now(space, key, expected, value)
            }
            (Expected::Anything, Some(value), false) => {
                state::set(space, key, value).map(|()| true)
            }
            (Expected::Anything, Some(value), true) => {
                state::set_now(space, key, value).map(|()| true)
            }
            (Expected::Anything, None, false) => state::delete(space, key).map(|()| true),
            (Expected::Anything, None, true) => state::delete_now(space, key).map(|()| true),
        };
        set.map_err(store_error)
    }

    fn state_list(
        &self,
        space: Option<&str>,
        prefix: &str,
        after: Option<&str>,
    ) -> Result<Vec<String>, StoreError> {
        crate::bindings::host::jobs::state::list(space, prefix, after).map_err(store_error)
    }

    fn hold(&self, limit: &str, ms: u32) -> Result<(), StoreError> {
        crate::bindings::host::jobs::limits::hold(limit, ms).map_err(store_error)
    }

    fn reveal(&self, name: &str) -> Result<String, StoreError> {
        crate::bindings::host::jobs::secrets::reveal(name).map_err(store_error)
    }

    fn sql_query(
        &self,
        database: &str,
        statement: &str,
        params: &str,
    ) -> Result<SqlAnswer, SqlError> {
        use crate::bindings::host::jobs::sql;
        crate::sql::from_host(sql::query(database, statement, params))
    }

    fn sql_begin(&self, database: &str) -> Result<u32, SqlError> {
        use crate::bindings::host::jobs::sql;
        Ok(sql::begin(database)?)
    }

    fn sql_query_in(
        &self,
        transaction: u32,
        statement: &str,
        params: &str,
    ) -> Result<SqlAnswer, SqlError> {
        use crate::bindings::host::jobs::sql;
        crate::sql::from_host(sql::query_in(transaction, statement, params))
    }

    fn sql_end(&self, transaction: u32, commits: bool) -> Result<(), SqlError> {
        use crate::bindings::host::jobs::sql;
        let ended = if commits {
            sql::commit(transaction)
        } else {
            sql::rollback(transaction)
        };
        Ok(ended?)
    }

    fn artifact_create(&self, name: &str, content_type: Option<&str>) -> Result<u32, StoreError> {
        crate::bindings::host::jobs::artifacts::create(name, content_type).map_err(store_error)
    }

    fn artifact_write(&self, artifact: u32, content: &[u8]) -> Result<(), StoreError> {
        crate::bindings::host::jobs::artifacts::write(artifact, content).map_err(store_error)
    }

    fn artifact_close(&self, artifact: u32) -> Result<(), StoreError> {
        crate::bindings::host::jobs::artifacts::close(artifact).map_err(store_error)
    }

    fn artifact_open(&self, name: &str) -> Result<u32, StoreError> {
        crate::bindings::host::jobs::artifacts::open(name).map_err(store_error)
    }

    fn artifact_read(&self, artifact: u32, bytes_max: u32) -> Result<Vec<u8>, StoreError> {
        crate::bindings::host::jobs::artifacts::read(artifact, bytes_max).map_err(store_error)
    }

    fn step_begin(&self, name: &str) -> Result<Progress, StoreError> {
        use crate::bindings::host::jobs::steps;
        let progress = steps::begin(name).map_err(store_error)?;
        Ok(match progress {
            steps::Progress::New => Progress::New,
            steps::Progress::Begun(checkpoint) => Progress::Begun(checkpoint),
            steps::Progress::Done(result) => Progress::Done(result),
            steps::Progress::Failed(error) => Progress::Failed(error),
        })
    }

    fn step_checkpoint(&self, checkpoint: &str) -> Result<(), StoreError> {
        crate::bindings::host::jobs::steps::checkpoint(checkpoint).map_err(store_error)
    }

    fn step_complete(&self, result: &str) -> Result<(), StoreError> {
        crate::bindings::host::jobs::steps::complete(result).map_err(store_error)
    }

    fn step_fail(&self, error: &str) -> Result<(), StoreError> {
        crate::bindings::host::jobs::steps::fail(error).map_err(store_error)
    }
}

#[cfg(target_family = "wasm")]
fn store_error(error: crate::bindings::host::jobs::jobs::Error) -> StoreError {
    use crate::bindings::host::jobs::jobs::ErrorKind;
    use crate::store::StoreErrorKind;
    StoreError {
        kind: match error.kind {
            ErrorKind::NotGranted => StoreErrorKind::NotGranted,
            ErrorKind::InvalidRequest => StoreErrorKind::InvalidRequest,
            ErrorKind::LimitReached => StoreErrorKind::LimitReached,
            ErrorKind::Unavailable => StoreErrorKind::Unavailable,
        },
        message: error.message,
    }
}
