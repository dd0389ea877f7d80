//! The value of an option that takes JSON: the text itself, a file or standard input.

use std::fs::File;
use std::io::{self, Read};

use serde_json::value::RawValue;

use crate::error::{CliError, Exit};

/// The longest argument in a file or on standard input, in bytes.
const ARGUMENT_BYTES_MAX: u64 = 16 << 20;

/// Reads the JSON argument `given` of the option `option`: the text itself, `@FILE`, or `-` for
/// standard input.
pub fn argument(option: &str, given: &str) -> Result<Box<RawValue>, CliError> {
    let (from, text) = if given == "-" {
        let text = bounded(&mut io::stdin().lock())
            .map_err(|error| unreadable(option, "standard input", &error))?;
        (" from standard input".to_owned(), text)
    } else if let Some(path) = given.strip_prefix('@') {
        let text = File::open(path)
            .and_then(|mut file| bounded(&mut file))
            .map_err(|error| unreadable(option, path, &error))?;
        (format!(" from {path}"), text)
    } else {
        (String::new(), given.to_owned())
    };
    serde_json::from_str(&text).map_err(|error| {
        CliError::new(Exit::Usage, format!("read {option}{from} as JSON"), error).next(format!(
            "quote it for the shell: {option} '{{\"key\": \"value\"}}'"
        ))
    })
}

/// Reads a text that may be longer than any host takes, or endless.
fn bounded(from: &mut dyn Read) -> io::Result<String> {
    let mut text = String::new();
    from.take(ARGUMENT_BYTES_MAX + 1)
        .read_to_string(&mut text)?;
    if text.len() as u64 > ARGUMENT_BYTES_MAX {
        let message = format!("it has more than {} MiB", ARGUMENT_BYTES_MAX >> 20);
        return Err(io::Error::other(message));
    }
    Ok(text)
}

fn unreadable(option: &str, source: &str, error: &std::io::Error) -> CliError {
    CliError::new(Exit::Usage, format!("read {option} from {source}"), error).next(format!(
        "{option} takes JSON, @FILE with a readable file, or - for standard input"
    ))
}
