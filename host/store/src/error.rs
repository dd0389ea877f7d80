//! The errors of a store. They are failures of the storage; decisions of the rules are
//! `Rejection`s.

use thiserror::Error;

/// A failure of the storage below.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The disk is full. Nothing of the batch was kept.
    #[error(
        "the disk is full: free space where the data directory is; nothing of this request was kept"
    )]
    Full,
    /// The file of the store is not where it was opened. Nothing of the batch was kept.
    #[error(
        "the store is not at {path} any more: it was moved, removed or replaced while the host runs, and new jobs \
         would be lost with it; put the data directory back, or stop the host; nothing of this request was kept"
    )]
    Moved {
        /// Where it was.
        path: String,
    },
    /// The disk failed and can no longer be trusted. The host must stop acknowledging jobs.
    #[error("cannot {operation}: {message}")]
    Broken {
        /// What was being done, and to what.
        operation: &'static str,
        /// The error of the storage.
        message: String,
    },
    /// The database that has the store does not answer now.
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
        "this host has lost its place among the nodes of its store: its heartbeats stopped for too long, or \
         a later process of this host has replaced it; start it again"
    )]
    Fenced,
    /// The store was written by a later version of the host.
    #[error(
        "{what} has version {version}, this host knows versions up to {known}; \
         start a host at least as new as the one that wrote it, or use another {place}"
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
    /// The data on disk is damaged.
    #[error("{what} is damaged: {message}; restore the data directory from a copy")]
    Damaged {
        /// The damaged record.
        what: String,
        /// What is wrong with it.
        message: String,
    },
}
