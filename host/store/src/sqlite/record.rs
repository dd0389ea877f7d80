//! Records as bytes: one byte for the version of the encoding, then postcard. The order of fields
//! and variants in the core's types is part of version 1; `tests` hold samples of it.

#[cfg(test)]
mod tests;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::StoreError;

/// The encoding that is written. A change of an encoded type adds a version here and a way to
/// read the earlier one.
const VERSION: u8 = 1;

/// Encodes a record.
pub(super) fn encode(value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    postcard::to_extend(value, vec![VERSION]).map_err(|error| StoreError::Damaged {
        what: "a record to write".to_owned(),
        message: error.to_string(),
    })
}

/// Decodes a record; `what` names it in the error.
pub(super) fn decode<T: DeserializeOwned>(
    bytes: &[u8],
    what: impl FnOnce() -> String,
) -> Result<T, StoreError> {
    let message = match bytes.split_first() {
        Some((&VERSION, body)) => match postcard::from_bytes(body) {
            Ok(value) => return Ok(value),
            Err(error) => error.to_string(),
        },
        Some((version, _)) => {
            format!("its encoding is {version}, this host knows encodings up to {VERSION}")
        }
        None => "it is empty".to_owned(),
    };
    let what = what();
    Err(StoreError::Damaged { what, message })
}
