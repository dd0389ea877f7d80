//! Spans: what tracing shows of jobs, as data. Knows no format and no collector.

use crate::time::Time;

/// What has ended, as a span of its trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Its name.
    pub name: &'static str,
    /// Its side of a message.
    pub kind: Kind,
    /// The trace.
    pub trace_id: u128,
    /// Its own id.
    pub id: u64,
    /// The id of the span that caused it, if there is one.
    pub parent_id: Option<u64>,
    /// When it began.
    pub began_at: Time,
    /// When it ended.
    pub ended_at: Time,
    /// What is known of it.
    pub attributes: Vec<(String, Attribute)>,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

/// What a span has to do with a message that others handle at another time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It makes the message: a job is enqueued.
    Producer,
    /// It handles the message: an attempt of a job.
    Consumer,
    /// It asks another program and waits: a request to a server.
    Client,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
}

impl Attribute {
    /// Makes a text.
    pub fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    /// Makes a number.
    pub fn number(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// Takes spans. Never waits; may drop some.
pub trait Spans: Send + Sync {
    /// Takes the span of something that has ended.
    fn ended(&self, span: Span);
}
