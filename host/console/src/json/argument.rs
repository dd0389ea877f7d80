//! The value of an option that takes JSON: the text itself, a file or standard input.

use host_core::json::words;
use serde_json::value::RawValue;

use crate::error::{CliError, Exit};
use crate::input;

/// Reads the JSON argument `given` of the option `option`: the text itself, `@FILE`, or `-` for
/// standard input.
pub fn argument(option: &str, given: &str) -> Result<Box<RawValue>, CliError> {
    let (source, text) = input::argument(option, "JSON", given)?;
    let from = source
        .map(|source| format!(" from {source}"))
        .unwrap_or_default();
    serde_json::from_str(&text).map_err(|error| {
        let cause = words::of(&error);
        CliError::new(Exit::Usage, format!("read {option}{from} as JSON"), cause).next(format!(
            "quote it for the shell: {option} '{{\"key\": \"value\"}}'"
        ))
    })
}
