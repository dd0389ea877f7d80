//! The log files that jobs name: where they may be, how they are opened and how they are written.
//! Knows no Redis.

mod files;
mod root;
mod text;

pub(super) use self::files::{LogFile, LogFiles};
pub use self::root::{LogFileError, LogRoot};
