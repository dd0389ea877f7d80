//! The log files that jobs name: where they may be, and how they are opened and written. Knows no
//! Redis.

mod files;
mod root;
mod text;

pub(super) use self::files::{LogFile, LogFiles};
pub(super) use self::root::{LogFileError, LogRoot};
