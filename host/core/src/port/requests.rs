//! What metrics and spans show of a request of a handler that has ended.

use crate::requests::{RequestReport, RequestTarget};
use crate::time::Time;
use crate::trace::Parent;

/// A request that has ended.
#[derive(Clone, Copy, Debug)]
pub struct EndedRequest<'a> {
    /// The handler that made it.
    pub handler: &'a str,
    /// The job, by the name that its attempt sees.
    pub job: &'a str,
    /// The number of the attempt.
    pub attempt: u32,
    /// The span of the attempt, and the id of the request's own.
    pub span: Option<(Parent, u64)>,
    /// When it began.
    pub began_at: Time,
    /// What was requested.
    pub asked: &'a RequestTarget,
    /// How it ended.
    pub ended: RequestReport,
}

/// Takes note of requests that have ended. Never waits.
pub trait RequestWatch: Send + Sync {
    /// Returns whether requests have spans.
    fn has_spans(&self) -> bool;

    /// Takes note of a request.
    fn ended(&self, request: &EndedRequest<'_>);
}
