//! What the JSON API says: its documents, each declared once for the host that writes them and for the
//! commands that read them. A field that an older or newer host may leave out has a default.

pub mod attempt;
pub mod job;
pub mod log;
pub mod node;

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
