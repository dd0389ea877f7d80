//! What a host call takes at most. The SDK refuses what is larger, because the host would end the attempt for it; it cuts
//! lines of the log and texts of failures, as the host does.

use std::fmt::Display;

use crate::request::{HttpError, HttpErrorKind, HttpRequest};
use crate::sql::{SqlError, SqlErrorKind};
use crate::store::{NewJob, StoreError, StoreErrorKind};

/// The most bytes of a request's body.
const BODY_BYTES_MAX: usize = 4 << 20;

/// The most bytes of a request's URL.
const URL_BYTES_MAX: usize = 8 << 10;

/// The most headers of a request, and their bytes together.
const HEADERS_MAX: usize = 1_000;
const HEADERS_BYTES_MAX: usize = 64 << 10;

/// The most bytes of all jobs of one call, as JSON.
const JOBS_BYTES_MAX: usize = 8 << 20;

/// The most bytes of a result, a failure or a checkpoint of a step, as JSON.
const STEP_BYTES_MAX: usize = 64 << 10;

/// The most bytes of a value of state.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// The most bytes of a statement with its parameters.
const STATEMENT_BYTES_MAX: usize = 4 << 20;

/// The most bytes of a key of state, and of the name of a space, a limit, a secret or a database.
const NAME_BYTES_MAX: usize = 512;

/// The most bytes of a line of the log, and of each of its values.
pub(crate) const LINE_BYTES_MAX: usize = 16 << 10;

/// The most fields of a line of the log, and the most bytes of their names.
pub(crate) const FIELDS_MAX: usize = 64;
pub(crate) const FIELD_NAME_BYTES_MAX: usize = LINE_BYTES_MAX / FIELDS_MAX;

/// The most bytes of the details of a failure.
#[cfg(target_family = "wasm")]
pub(crate) const DETAILS_BYTES_MAX: usize = 64 << 10;

pub(crate) fn check_request(request: &HttpRequest) -> Result<(), HttpError> {
    let length = |(name, value): &(String, String)| name.len() + value.len();
    let in_headers: usize = request.headers.iter().map(length).sum();
    let (in_url, in_body) = (request.url.len(), request.body.len());
    let message = if in_url > URL_BYTES_MAX {
        format!("the URL has {in_url} bytes, more than {URL_BYTES_MAX}")
    } else if request.method.len() > NAME_BYTES_MAX {
        "invalid name of a method".to_owned()
    } else if request.headers.len() > HEADERS_MAX || in_headers > HEADERS_BYTES_MAX {
        format!("too many headers: at most {HEADERS_MAX} with {HEADERS_BYTES_MAX} bytes")
    } else if in_body > BODY_BYTES_MAX {
        format!("the request's body has {in_body} bytes, more than {BODY_BYTES_MAX}")
    } else {
        return Ok(());
    };
    let kind = HttpErrorKind::InvalidRequest;
    Err(HttpError { kind, message })
}

/// Returns jobs as the host takes them.
pub(crate) fn write_jobs(jobs: &[NewJob]) -> Result<String, StoreError> {
    let text = serde_json::to_string(jobs)
        .map_err(|error| invalid(format!("cannot serialize the jobs as JSON: {error}")))?;
    if text.len() > JOBS_BYTES_MAX {
        let bytes = text.len();
        return Err(invalid(format!(
            "the jobs of one call may have at most {JOBS_BYTES_MAX} bytes, got {bytes}"
        )));
    }
    Ok(text)
}

/// Checks what the journal gets of a step.
pub(crate) fn check_step(text: &str) -> Result<(), StoreError> {
    let bytes = text.len();
    if bytes <= STEP_BYTES_MAX {
        return Ok(());
    }
    Err(StoreError {
        kind: StoreErrorKind::LimitReached,
        message: format!(
            "the journal keeps at most {STEP_BYTES_MAX} bytes of a step, got {bytes}; keep it as an artifact"
        ),
    })
}

/// Checks the key of a value of state.
pub(crate) fn check_key(key: &str) -> Result<(), StoreError> {
    let bytes = key.len();
    if !(1..=NAME_BYTES_MAX).contains(&bytes) {
        return Err(invalid(format!(
            "a key of state must have 1–{NAME_BYTES_MAX} bytes, got {bytes}"
        )));
    }
    Ok(())
}

pub(crate) fn check_value(value: Option<&[u8]>) -> Result<(), StoreError> {
    let bytes = value.map_or(0, <[u8]>::len);
    if bytes > VALUE_BYTES_MAX {
        return Err(invalid(format!(
            "a value of state may have at most {VALUE_BYTES_MAX} bytes, got {bytes}"
        )));
    }
    Ok(())
}

pub(crate) fn check_name(what: &str, name: &str) -> Result<(), StoreError> {
    let bytes = name.len();
    if bytes > NAME_BYTES_MAX {
        return Err(invalid(format!(
            "{what} may have at most {NAME_BYTES_MAX} bytes, got {bytes}"
        )));
    }
    Ok(())
}

pub(crate) fn check_statement(
    database: &str,
    statement: &str,
    params: &str,
) -> Result<(), SqlError> {
    let (in_name, bytes) = (database.len(), statement.len() + params.len());
    let (kind, message) = if in_name > NAME_BYTES_MAX {
        let message = format!(
            "the name of a database may have at most {NAME_BYTES_MAX} bytes, got {in_name}"
        );
        (SqlErrorKind::InvalidRequest, message)
    } else if bytes > STATEMENT_BYTES_MAX {
        let message = format!(
            "the statement and its parameters have {bytes} bytes, more than {STATEMENT_BYTES_MAX}"
        );
        (SqlErrorKind::TooLarge, message)
    } else {
        return Ok(());
    };
    let code = None;
    Err(SqlError {
        kind,
        code,
        message,
    })
}

fn invalid(message: String) -> StoreError {
    let kind = StoreErrorKind::InvalidRequest;
    StoreError { kind, message }
}

/// Returns a text without its end if it is too long.
pub(crate) fn cut(text: impl Display, bytes_max: usize) -> String {
    let text = text.to_string();
    if text.len() <= bytes_max {
        return text;
    }
    let end = text.floor_char_boundary(bytes_max);
    format!("{} … ({} more bytes)", &text[..end], text.len() - end)
}

#[cfg(all(test, not(target_family = "wasm")))]
mod tests {
    use serde_json::json;

    use crate::{Level, MockHost};

    #[test]
    fn what_is_too_long_for_the_log_is_cut() {
        let host = MockHost::new();
        let long = "ä".repeat(1 << 20);
        let mut fields = json!({ long.as_str(): 1, "text": long, "list": vec![7; 1 << 16] });
        for n in 0..100 {
            fields[format!("z{n:03}")] = json!(n);
        }
        host.ctx().log(Level::Info, &long, fields);
        let line = &host.logs()[0];
        let cut = format!("{} … (2080768 more bytes)", "ä".repeat(8 << 10));
        assert_eq!(line.message, cut);
        assert_eq!(line.fields["text"], cut);
        let list = line.fields["list"].as_str().unwrap();
        assert!(list.starts_with("[7,7,") && list.len() < 17_000, "{list}");
        assert_eq!(line.fields["z000"], 0);
        assert_eq!(line.fields.len(), 64);
        assert!(line.fields.keys().all(|name| name.len() < 300));
    }
}
