//! Repeats an action for each of several ids.

use crate::error::{CliError, Exit};
use crate::output::say;

/// Calls `one` for each id, prints the errors and continues. The first error decides the exit code.
pub fn each(ids: &[String], one: impl Fn(&str) -> Result<(), CliError>) -> Result<(), CliError> {
    let mut first = None;
    for id in ids {
        match one(id) {
            Ok(()) => {}
            Err(CliError::Silent(Exit::Ok)) => return Err(CliError::Silent(Exit::Ok)),
            Err(error) => {
                if !matches!(error, CliError::Silent(_)) {
                    say(&error.to_string());
                }
                first = first.or(Some(error.exit()));
            }
        }
    }
    first.map_or(Ok(()), |exit| Err(CliError::Silent(exit)))
}
