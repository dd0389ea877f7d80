//! JSON as text: params, results and details pass through the host unparsed.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One JSON document as UTF-8 text. Whoever makes one has checked that it parses.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JsonText(pub String);

impl JsonText {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the document `null`.
    pub fn null() -> Self {
        Self("null".to_owned())
    }
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JsonText({} bytes)", self.0.len())
    }
}
