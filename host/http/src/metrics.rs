//! Counts the server's work. The program that uses the server decides how to show the counts.

use std::time::Duration;

/// Counts connections and answers. No call blocks.
pub trait Metrics: Send + Sync {
    /// Counts an answered request of a route, including refusals. `took` is the time from the
    /// header of the request to the header of its answer.
    fn count_response(&self, method: &'static str, path: &'static str, status: u16, took: Duration);

    /// Counts a connection that was opened.
    fn connection_opened(&self);

    /// Counts a connection that was closed.
    fn connection_closed(&self);

    /// Counts a connection that did not become TLS.
    fn handshake_failed(&self);
}

/// Counts nothing.
pub struct Uncounted;

impl Metrics for Uncounted {
    fn count_response(&self, _: &'static str, _: &'static str, _: u16, _: Duration) {}
    fn connection_opened(&self) {}
    fn connection_closed(&self) {}
    fn handshake_failed(&self) {}
}
