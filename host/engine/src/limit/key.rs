//! What the key of a limit is made of, the key of a job, and the units that it takes.

use host_core::job::Payload;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Limit, LimitRefusal};

/// The longest part of a key as it is written, in bytes.
const PART_BYTES_MAX: usize = 256;

/// What begins the name of an attribute.
const ATTRIBUTE: &str = "attributes:";

/// A value of a job, as part of a key or as its units: one in the params, by its JSON pointer, or an attribute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeyPart(String);

/// Why a text is no part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KeyPartError {
    #[error("must be a JSON pointer into params, such as /customer, or attributes:NAME")]
    Form,
    #[error("a ~ in a JSON pointer must be written ~0, and a / in a name ~1")]
    Escape,
    #[error("must have at most {PART_BYTES_MAX} bytes")]
    Length,
}

impl TryFrom<String> for KeyPart {
    type Error = KeyPartError;

    fn try_from(text: String) -> Result<Self, KeyPartError> {
        if text.len() > PART_BYTES_MAX {
            return Err(KeyPartError::Length);
        }
        let is_attribute = text
            .strip_prefix(ATTRIBUTE)
            .is_some_and(|it| !it.is_empty());
        if is_attribute || text.starts_with('/') {
            Ok(Self(text))
        } else {
            Err(KeyPartError::Form)
        }
    }
}

impl From<KeyPart> for String {
    fn from(part: KeyPart) -> Self {
        part.0
    }
}

impl KeyPart {
    /// Reads a part of a new limit. Stored limits may have a pointer with another escape, which leads to no value.
    pub fn parse(text: String) -> Result<Self, KeyPartError> {
        let part = Self::try_from(text)?;
        let mut escapes = part.0.split('~').skip(1);
        if part.0.starts_with('/') && !escapes.all(|after| after.starts_with(['0', '1'])) {
            return Err(KeyPartError::Escape);
        }
        Ok(part)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns what a job has there: a text, or a number or word as it is written. Returns an empty text if the job has
    /// nothing there, or an array or object.
    fn value(&self, payload: &Payload) -> String {
        // Databases refuse NUL in texts.
        let found = self.find(payload).unwrap_or_default();
        found.replace('\0', "\u{fffd}")
    }

    /// Returns whether a job has anything there but `null`.
    fn is_in(&self, payload: &Payload) -> bool {
        let is_in_params = self.0.starts_with('/') && payload.params.has_at(&self.0);
        is_in_params || self.find(payload).is_some()
    }

    fn find(&self, payload: &Payload) -> Option<String> {
        match self.0.strip_prefix(ATTRIBUTE) {
            Some(name) => {
                let mut attributes = payload.attributes.iter();
                let named = attributes.find(|(attribute, _)| attribute == name);
                named.map(|(_, value)| value.clone())
            }
            None => payload.params.scalar_at(&self.0),
        }
    }
}

impl Limit {
    /// Returns the key of a job. Several parts are a JSON array.
    pub(super) fn key_of(&self, payload: &Payload) -> String {
        match self.key.as_slice() {
            [] => String::new(),
            [part] => part.value(payload),
            parts => {
                let values = parts.iter().map(|part| quoted(&part.value(payload)));
                format!("[{}]", values.collect::<Vec<_>>().join(","))
            }
        }
    }

    /// Returns how many units a job has. Refuses more than the bucket holds: the job could never start.
    pub(super) fn units_of(&self, payload: &Payload) -> Result<u32, LimitRefusal> {
        let counted = self
            .rate
            .as_ref()
            .and_then(|rate| Some((rate.burst, rate.units.as_ref()?)));
        let Some((burst, units)) = counted.filter(|(_, units)| units.is_in(payload)) else {
            return Ok(1);
        };
        let number = units
            .find(payload)
            .and_then(|it| it.parse().ok())
            .filter(|it| *it <= burst);
        number.ok_or_else(|| LimitRefusal::Units {
            limit: self.name.clone(),
            burst,
        })
    }
}

/// Returns a text in quotes, so that two lists of texts are never the same when joined.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
