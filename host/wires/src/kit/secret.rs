//! A text that neither `Debug` nor a log shows.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A token or a key. It is written where a message carries it, and nowhere else.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(pub(crate) String);

impl Secret {
    /// Returns the secret itself.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
