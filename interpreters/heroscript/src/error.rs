//! The error of a script that does not parse.

/// Why a script does not parse, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The line, counted from 1.
    pub line: usize,
    /// The message, without the line.
    pub message: String,
}
