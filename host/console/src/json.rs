//! JSON of answers and of arguments.

mod argument;

pub use argument::argument;

use host_core::json::words;
use serde_json::error::Category;

/// Returns why JSON cannot be read, in plain words.
pub fn flaw(error: &serde_json::Error) -> String {
    match error.classify() {
        Category::Data => words::plain(&error.to_string()),
        _ => words::syntax(&error.to_string()),
    }
}

/// Returns the JSON object `object` with one more member at its end.
pub fn with_member(object: &str, key: &str, value: &str) -> String {
    let Some(open) = object.trim_end().strip_suffix('}') else {
        return object.to_owned();
    };
    let comma = if open.trim_end().ends_with('{') {
        ""
    } else {
        ","
    };
    format!("{open}{comma}\"{key}\":{value}}}")
}

#[cfg(test)]
mod tests;
