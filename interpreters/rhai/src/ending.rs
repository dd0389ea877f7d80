//! Converts the ways a script can end without a result into errors of the handler, with a kind, the place in
//! the script, and who must act.

use guest_sdk::{Category, Error};
use rhai::{EvalAltResult, ParseError, Position};
use serde_json::{Value, json};

use crate::calls::Calls;
use crate::value;

/// Returns the error for a script that does not parse. The sender must act.
pub(crate) fn of_parsing(error: &ParseError) -> Error {
    Error::new(Category::DataQuality, "script_syntax", error).details(&place(error.position()))
}

/// Returns the error for a script that failed or was stopped.
pub(crate) fn of_running(error: &EvalAltResult, calls: &Calls) -> Error {
    if let Some(ending) = calls.ending() {
        return ending;
    }
    let (message, position) = (error.to_string(), error.position());
    match error.unwrap_inner() {
        EvalAltResult::ErrorTerminated(..) => Error::Cancelled { partial: None },
        // The text passed to `eval` does not parse.
        EvalAltResult::ErrorParsing(..) => {
            Error::new(Category::DataQuality, "script_syntax", message).details(&place(position))
        }
        EvalAltResult::ErrorRuntime(thrown, _) => {
            if let Some(failure) = calls.failure(thrown) {
                return failure;
            }
            let mut details = place(position);
            if let (Value::Object(details), Ok(thrown)) = (&mut details, value::to_json(thrown)) {
                details.insert("thrown".to_owned(), thrown);
            }
            Error::new(Category::UserCode, "script_thrown", message).details(&details)
        }
        _ => Error::new(Category::UserCode, "script_error", message).details(&place(position)),
    }
}

fn place(position: Position) -> Value {
    json!({"line": position.line(), "column": position.position()})
}
