//! What is counted while serving; the program that serves decides how to show it.

use std::time::Duration;

/// Counts connections and answers. No call waits.
pub trait Metrics: Send + Sync {
    /// Counts a request of a route that was answered, refusals included. `took` is the time from
    /// the header of the request to that of its answer.
    fn answered(&self, method: &'static str, path: &'static str, status: u16, took: Duration);

    /// Counts a connection that was opened.
    fn connection_opened(&self);

    /// Counts a connection that was closed.
    fn connection_closed(&self);
}
