//! Reads JSON from clients strictly: no repeated keys, no numbers beyond the range of a double, and
//! limited depth. Errors name the field. For an unknown field they suggest the most similar known
//! one.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use host_core::json::{Strict, words};
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Why a document is refused, with the place of the error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonError {
    /// The document is not JSON or breaks a strict rule: a key is repeated, the nesting is too
    /// deep, or a number is beyond the range of a double.
    Syntax(String),
    /// The document is JSON, but a field is unknown, missing, out of range or of the wrong type.
    Data(String),
}

impl JsonError {
    /// Adds the place of the document to the front of the message.
    #[must_use]
    pub fn at(self, place: &str) -> Self {
        match self {
            Self::Syntax(text) => Self::Syntax(format!("{place}: {text}")),
            Self::Data(text) => Self::Data(format!("{place}: {text}")),
        }
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Syntax(text) | Self::Data(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for JsonError {}

/// Reads a document as `T`.
pub fn read<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, JsonError> {
    serde_json::from_slice(text).map_err(|error| explain::<T>(text, &error))
}

/// Reads an object as `T`. [`read`] would also accept an array of its fields in order.
pub fn read_object<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, JsonError> {
    if text.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        check(text)?;
        let message = "invalid type: expected an object";
        return Err(JsonError::Data(message.to_owned()));
    }
    read(text)
}

/// Reads an object as `T`, an empty text as its default.
pub fn read_or_default<'a, T: Deserialize<'a> + Default>(text: &'a [u8]) -> Result<T, JsonError> {
    if text.is_empty() {
        return Ok(T::default());
    }
    read_object(text)
}

/// Checks a document that stays text.
pub fn check(text: &[u8]) -> Result<(), JsonError> {
    let mut document = serde_json::Deserializer::from_slice(text);
    Strict
        .deserialize(&mut document)
        .and_then(|()| document.end())
        .map_err(|error| JsonError::Syntax(error.to_string()))
}

/// Returns what is wrong and the path of the field. This reads the document a second time, because tracking
/// the path makes reading slower. Whether the document is JSON is checked separately: serde also reports a
/// syntax error for a value where it expects a variant.
fn explain<'a, T: Deserialize<'a>>(text: &'a [u8], error: &serde_json::Error) -> JsonError {
    if let Err(error) = check(text) {
        return error;
    }
    let mut document = serde_json::Deserializer::from_slice(text);
    let message = match serde_path_to_error::deserialize::<_, T>(&mut document) {
        Err(error) if error.path().iter().len() > 0 => {
            let path = error.path().to_string();
            match error.into_inner().to_string() {
                cause if cause.starts_with("unknown field") => cause,
                cause => format!("{path}: {cause}"),
            }
        }
        _ => error.to_string(),
    };
    JsonError::Data(with_nearest(&words::plain(&message)))
}

/// Adds the most similar known field to serde's message about an unknown field.
pub fn with_nearest(message: &str) -> String {
    let Some((before, after)) = message.split_once("unknown field `") else {
        return message.to_owned();
    };
    let mut quoted = after.split('`');
    let unknown = quoted.next().unwrap_or_default();
    let known: Vec<&str> = quoted.skip(1).step_by(2).collect();
    let advice = match nearest(unknown, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "no fields are allowed here".to_owned(),
        None => format!("known are `{}`", known.join("`, `")),
    };
    format!("{before}unknown field `{unknown}`; {advice}")
}

/// The least similarity, from 0 to 1, at which a known name is suggested.
const SIMILARITY_MIN: f64 = 0.7;

/// Returns the known name that is most similar to `unknown`, if any is similar enough.
pub fn nearest<'a>(unknown: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let similarity = |known: &&str| strsim::jaro_winkler(unknown, known);
    known
        .max_by(|a, b| similarity(a).total_cmp(&similarity(b)))
        .filter(|near| similarity(near) >= SIMILARITY_MIN)
}

/// The pairs of a JSON object whose values are strings, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pairs(pub Vec<(String, String)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor)
    }
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
        let mut keys = BTreeSet::new();
        let mut pairs = Vec::new();
        while let Some((key, value)) = map.next_entry::<String, String>()? {
            if !keys.insert(key.clone()) {
                return Err(A::Error::custom(format!("duplicate key `{key}`")));
            }
            pairs.push((key, value));
        }
        Ok(Pairs(pairs))
    }
}

/// The first `N` elements of an array, and whether there are more.
#[derive(Debug)]
pub struct AtMost<const N: usize, T> {
    pub elements: Vec<T>,
    /// Whether the array has more elements.
    pub more: bool,
}

impl<'de, const N: usize, T: Deserialize<'de>> Deserialize<'de> for AtMost<N, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements<const N: usize, T>(std::marker::PhantomData<T>);
        impl<'de, const N: usize, T: Deserialize<'de>> Visitor<'de> for Elements<N, T> {
            type Value = AtMost<N, T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut elements = Vec::new();
                while elements.len() < N {
                    let Some(element) = seq.next_element()? else {
                        let more = false;
                        return Ok(AtMost { elements, more });
                    };
                    elements.push(element);
                }
                let mut more = false;
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    more = true;
                }
                Ok(AtMost { elements, more })
            }
        }
        deserializer.deserialize_seq(Elements(std::marker::PhantomData))
    }
}
