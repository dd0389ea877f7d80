//! The errors of a store. They are failures of the storage; decisions of the rules are
//! `Rejection`s.

use thiserror::Error;

/// A failure of the storage.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The disk is full. The batch had no effect.
    #[error(
        "the disk is full: free space on the disk of the data directory; this request had no effect"
    )]
    Full,
    /// The file of the store is not where it was opened. The batch had no effect.
    #[error(
        "the store is no longer at {path}: it was moved, removed or replaced while the host was running, \
         and new jobs would be lost with it; put the data directory back, or stop the host; this request \
         had no effect"
    )]
    Moved {
        /// Where it was.
        path: String,
    },
    /// The batch failed, for a reason that may pass or that concerns one of its commands. It had no effect.
    #[error("cannot {operation}: {message}; this had no effect")]
    Failing {
        /// What was being done, and to what.
        operation: &'static str,
        /// The error of the storage.
        message: String,
    },
    /// The disk failed and can no longer be trusted. The host must stop acknowledging jobs.
    #[error("cannot {operation}: {message}")]
    Broken {
        /// What was being done, and to what.
        operation: &'static str,
        /// The error of the storage.
        message: String,
    },
    /// The database does not answer. A batch had no effect.
    #[error("cannot {operation}: {message}")]
    Away {
        /// What was being done, and to what.
        operation: &'static str,
        /// The error of the connection.
        message: String,
    },
    /// Other nodes may have taken over the jobs of this host, because its heartbeats stopped or because a later
    /// process has replaced it.
    #[error(
        "this host is no longer a member of its store's nodes: its heartbeats stopped for too long, or a \
         later process of this host has replaced it; start it again"
    )]
    Fenced,
    /// The store was written by a later version of the host.
    #[error(
        "{what} has version {version}, but this host knows versions up to {known}; use a host at least \
         as new as the one that wrote it, or another {place}"
    )]
    Newer {
        /// The file or the schema.
        what: &'static str,
        /// Where it is.
        place: &'static str,
        /// Its version.
        version: i64,
        /// The latest version that this host knows.
        known: i64,
    },
    /// This host cannot read a record.
    #[error(
        "{what} cannot be read: {message}; `host serve --set-aside-unreadable` sets such records aside when it \
         starts, and keeps the rest"
    )]
    Unreadable {
        /// The record: its kind and its id.
        what: String,
        /// What is wrong with it.
        message: String,
    },
    /// The data on disk is damaged.
    #[error("{what} is damaged: {message}; restore the data directory from a copy")]
    Damaged {
        /// The damaged record.
        what: String,
        /// What is wrong with it.
        message: String,
    },
}

impl StoreError {
    /// Returns what is wrong with a record, without its name and what to do.
    pub fn flaw(self) -> String {
        match self {
            Self::Unreadable { message, .. } => message,
            other => other.to_string(),
        }
    }
}
