//! Spans: what tracing tells of executions, as data. Knows no format and no collector.

use crate::time::Time;

/// One execution that has ended, as a span of its trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Its name.
    pub name: &'static str,
    /// The trace: 32 hexadecimal digits.
    pub trace_id: String,
    /// Its own id: 16 hexadecimal digits.
    pub id: String,
    /// The id of the span that caused it, if there is one.
    pub parent_id: Option<String>,
    /// When it began.
    pub began_at: Time,
    /// When it ended.
    pub ended_at: Time,
    /// What is known of it.
    pub attributes: Vec<(String, Attribute)>,
    /// Why it failed, if it did.
    pub error: Option<String>,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
}

/// Takes spans. Never waits; may drop some.
pub trait Spans: Send + Sync {
    /// Takes the span of an execution that has ended.
    fn ended(&self, span: Span);
}
