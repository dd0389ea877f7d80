//! Strict checks of JSON from a peer before anything is read from it: no duplicate keys, no numbers beyond a
//! double, bounded depth, valid UTF-8. Knows no messages.

#[cfg(test)]
mod tests;

use std::fmt;

use host_core::json::strict::Document;

/// What is wrong with a document, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Counted from 0, in bytes.
    pub offset: usize,
    /// For users. Quotes nothing of the document except a duplicate key.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.offset, self.message)
    }
}

/// Checks a whole document and keeps nothing.
pub fn check(text: &[u8]) -> Result<(), Fault> {
    Document::read(text, false)
        .map(drop)
        .map_err(|error| explain(text, &error))
}

fn explain(text: &[u8], error: &serde_json::Error) -> Fault {
    let lines_before = error.line().saturating_sub(1);
    let line_start: usize = text
        .split_inclusive(|byte| *byte == b'\n')
        .take(lines_before)
        .map(<[u8]>::len)
        .sum();
    let offset = (line_start + error.column().saturating_sub(1)).min(text.len());
    let text = error.to_string();
    let message = text
        .split_once(" at line ")
        .map_or(text.as_str(), |(cause, _)| cause);
    Fault {
        offset,
        message: message.to_owned(),
    }
}
