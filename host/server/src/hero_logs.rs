//! The log files that Hero jobs name: where they may be and how they are opened. Knows no job and
//! no Redis.

mod root;

pub use self::root::{LogFileError, LogRoot};
