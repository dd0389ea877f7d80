//! Why a store cannot do its work: never a decision of the rules, which are `Rejection`s.

use thiserror::Error;

/// A failure of the storage below.
#[derive(Debug, Error)]
pub enum StoreError {
    /// There is no room for what was to be written; nothing of the batch was kept.
    #[error(
        "the disk is full: free space where the data directory is; nothing of this request was kept"
    )]
    Full,
    /// The disk no longer keeps what it accepts. The host must stop acknowledging jobs.
    #[error("cannot {operation}: {message}")]
    Broken {
        /// What was being done, to what.
        operation: &'static str,
        /// What the storage said.
        message: String,
    },
    /// A later version of the host has written what is on disk.
    #[error(
        "{what} has version {version}, this host knows versions up to {known}; \
         start a host as new as the one that wrote it, or use another data directory"
    )]
    Newer {
        /// Which file.
        what: &'static str,
        /// Its version.
        version: i64,
        /// The latest that is known here.
        known: i64,
    },
    /// What is on disk is not what was written.
    #[error("{what} is damaged: {message}; restore the data directory from a copy")]
    Damaged {
        /// Which record.
        what: String,
        /// How it is known.
        message: String,
    },
}
