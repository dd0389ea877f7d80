//! The value of an option that takes JSON: the text itself, a file or standard input.

use host_core::json::words;
use serde_json::value::RawValue;

use crate::error::{CliError, Exit};
use crate::input;

/// Reads the JSON argument `given` of the option `option`: the text itself, `@FILE`, or `-` for
/// standard input.
pub fn argument(option: &str, given: &str) -> Result<Box<RawValue>, CliError> {
    let (from, text) = if given == "-" {
        let text =
            input::standard().map_err(|error| unreadable(option, "standard input", &error))?;
        (" from standard input".to_owned(), text)
    } else if let Some(path) = given.strip_prefix('@') {
        let text = input::file(path.as_ref()).map_err(|error| unreadable(option, path, &error))?;
        (format!(" from {path}"), text)
    } else {
        (String::new(), given.to_owned())
    };
    serde_json::from_str(&text).map_err(|error: serde_json::Error| {
        let cause = words::syntax(&error.to_string());
        CliError::new(Exit::Usage, format!("read {option}{from} as JSON"), cause).next(format!(
            "quote it for the shell: {option} '{{\"key\": \"value\"}}'"
        ))
    })
}

fn unreadable(option: &str, source: &str, error: &std::io::Error) -> CliError {
    CliError::new(Exit::Usage, format!("read {option} from {source}"), error).next(format!(
        "{option} takes JSON, @FILE with a readable file, or - for standard input"
    ))
}
