//! The JSON API: its paths, its documents and, with the feature `client`, its client. Each document is
//! declared once, for the host and for its clients. A field that an older or newer host may leave out has a
//! default.

pub mod artifact;
pub mod attempt;
pub mod audit;
pub mod batch;
pub mod cause;
pub mod change;
#[cfg(feature = "client")]
pub mod client;
pub mod component;
pub mod depends_on;
pub mod event;
pub mod filter;
pub mod filter_text;
pub mod handler;
pub mod health;
pub mod job;
pub mod limit;
pub mod log;
pub mod multipart;
pub mod new_job;
pub mod node;
pub mod page;
pub mod path;
pub mod pretty;
pub mod queue;
pub mod requests;
pub mod runner;
pub mod schedule;
pub mod state;
pub mod time;
pub mod token;
pub mod trend;
pub mod webhook;
pub mod words;

use host_core::json::JsonText;
use host_core::seconds::Seconds;
use serde_json::value::RawValue;

/// Returns a duration as the API writes it.
pub fn seconds(ms: u64) -> f64 {
    Seconds { ms }.into()
}

/// Shows a document that is kept as text; `null` if it is not JSON, which no request can cause.
pub fn raw(text: JsonText) -> Box<RawValue> {
    RawValue::from_string(text.0).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
