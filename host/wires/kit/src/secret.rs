//! A text that neither `Debug` nor a log shows.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// A token or a key. It is written where a message carries it, and nowhere else.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);

impl Secret {
    /// Returns the secret itself.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns whether this is the secret, in constant time.
    pub fn matches(&self, presented: &[u8]) -> bool {
        let (ours, theirs) = (Sha256::digest(&self.0), Sha256::digest(presented));
        bool::from(ours.as_slice().ct_eq(theirs.as_slice()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
