//! Encodes records as bytes: one byte for the version of the encoding, then postcard. The encoding depends on
//! the order of fields and variants in the types of `host-core`: tests hold samples.

mod parts;

#[cfg(test)]
mod tests;

use host_engine::StoreError;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use self::parts::{ChangesRow, CountsOfBatch, Extra, empty_changes};

/// The current version. Once it is released, a change to an encoded type needs the next version, and code in
/// [`decode`] that reads this one.
const VERSION: u8 = 1;

/// The size that most records stay below, in bytes.
const USUAL_BYTES_MAX: usize = 256;

/// Encodes a record.
pub(crate) fn encode(value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::with_capacity(USUAL_BYTES_MAX);
    bytes.push(VERSION);
    postcard::to_extend(value, bytes).map_err(|error| StoreError::Damaged {
        what: "a record to write".to_owned(),
        message: error.to_string(),
    })
}

/// Decodes a record. An error names the record as `what`.
pub(crate) fn decode<T: DeserializeOwned>(
    bytes: &[u8],
    what: impl FnOnce() -> String,
) -> Result<T, StoreError> {
    let decoded = match bytes.split_first() {
        Some((&VERSION, body)) => postcard::from_bytes(body).map_err(|error| error.to_string()),
        Some((version, _)) => Err(format!(
            "unknown encoding {version}; this host knows encodings up to {VERSION}"
        )),
        None => Err("it is empty".to_owned()),
    };
    decoded.map_err(|message| StoreError::Unreadable {
        what: what(),
        message,
    })
}
