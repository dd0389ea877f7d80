//! Encodes records as bytes: one byte for the version of the encoding, then postcard. Version 3
//! depends on the order of fields and variants in the types of `host-core`. The tests hold samples
//! of each version.

mod parts;
mod version_1;
mod version_2;

#[cfg(test)]
mod tests;

use host_core::failure::Failure;
use host_core::job::Lifecycle;
use host_core::outcome::{Attempt, Progress};
use host_core::transition::Effect;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::StoreError;

pub(crate) use self::parts::{ChangesOfBatch, Extra};

/// The version that is written. If an encoded type changes, add a version here and code that reads
/// the earlier ones.
const VERSION: u8 = 3;

/// A type that is stored as a record.
pub(crate) trait Record: Serialize + DeserializeOwned {
    /// Reads the bytes after a version byte of 1.
    fn from_version_1(body: &[u8]) -> postcard::Result<Self> {
        postcard::from_bytes(body)
    }

    /// Reads the bytes after a version byte of 2.
    fn from_version_2(body: &[u8]) -> postcard::Result<Self> {
        postcard::from_bytes(body)
    }
}

impl Record for Attempt {}
impl Record for Effect {}
impl Record for Failure {}
impl Record for Progress {}

impl Record for Lifecycle {
    fn from_version_1(body: &[u8]) -> postcard::Result<Self> {
        version_1::lifecycle(body)
    }

    fn from_version_2(body: &[u8]) -> postcard::Result<Self> {
        version_2::lifecycle(body)
    }
}

/// How long most records are at most, in bytes.
const USUAL_BYTES_MAX: usize = 256;

/// Encodes a record.
pub(crate) fn encode(value: &impl Record) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::with_capacity(USUAL_BYTES_MAX);
    bytes.push(VERSION);
    postcard::to_extend(value, bytes).map_err(|error| StoreError::Damaged {
        what: "a record to write".to_owned(),
        message: error.to_string(),
    })
}

/// Decodes a record of any version. An error names the record as `what`.
pub(crate) fn decode<T: Record>(
    bytes: &[u8],
    what: impl FnOnce() -> String,
) -> Result<T, StoreError> {
    let decoded = match bytes.split_first() {
        Some((&VERSION, body)) => postcard::from_bytes(body).map_err(|error| error.to_string()),
        Some((1, body)) => T::from_version_1(body).map_err(|error| error.to_string()),
        Some((2, body)) => T::from_version_2(body).map_err(|error| error.to_string()),
        Some((version, _)) => Err(format!(
            "its encoding is {version}, this host knows encodings up to {VERSION}"
        )),
        None => Err("it is empty".to_owned()),
    };
    decoded.map_err(|message| StoreError::Damaged {
        what: what(),
        message,
    })
}
