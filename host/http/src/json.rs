//! Reads JSON from clients strictly: no repeated keys, no numbers beyond the range of a double, and
//! limited depth. Errors name the field. For an unknown field they suggest the most similar known
//! one.

#[cfg(test)]
mod tests;

use std::fmt;
use std::marker::PhantomData;

use host_core::encoding::{self, NotUtf8};
use host_core::json::strict::Document;
use host_core::json::words;
use serde::de::value::MapAccessDeserializer;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
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
    let text = unmarked(text)?;
    serde_json::from_slice(text).map_err(|error| explain::<T>(text, &error))
}

/// Returns a document without its byte order mark.
fn unmarked(text: &[u8]) -> Result<&[u8], JsonError> {
    encoding::unmarked(text).map_err(|other| JsonError::Syntax(format!("not JSON: {other}")))
}

/// Reads an object as `T`. [`read`] would also accept an array of its fields in order.
pub fn read_object<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, JsonError> {
    let Object(read) = read(text)?;
    Ok(read)
}

/// Reads an object as `T`, an empty text as its default.
pub(crate) fn read_or_default<'a, T: Deserialize<'a> + Default>(
    text: &'a [u8],
) -> Result<T, JsonError> {
    if text.is_empty() {
        return Ok(T::default());
    }
    read_object(text)
}

/// Checks a document that stays text.
pub fn check(text: &[u8]) -> Result<(), JsonError> {
    read_document(text, false).map(drop)
}

/// Checks a document, and returns its values if `with_tree`.
pub fn read_document(text: &[u8], with_tree: bool) -> Result<Document, JsonError> {
    read_unmarked(unmarked(text)?, with_tree)
}

fn read_unmarked(text: &[u8], with_tree: bool) -> Result<Document, JsonError> {
    Document::read(text, with_tree).map_err(|error| {
        JsonError::Syntax(match std::str::from_utf8(text) {
            Ok(_) => words::syntax(&error.to_string()),
            Err(_) => format!("not JSON: {}", NotUtf8::Other),
        })
    })
}

/// Returns what is wrong and the path of the field. This reads the document a second time, because tracking
/// the path makes reading slower. Whether the document is JSON is checked separately: serde also reports a
/// syntax error for a value where it expects a variant.
fn explain<'a, T: Deserialize<'a>>(text: &'a [u8], error: &serde_json::Error) -> JsonError {
    if let Err(error) = read_unmarked(text, false) {
        return error.at("body");
    }
    let mut document = serde_json::Deserializer::from_slice(text);
    let (place, message) = match serde_path_to_error::deserialize::<_, T>(&mut document) {
        Err(error) => (error.path().to_string(), error.into_inner().to_string()),
        Ok(_) => (String::new(), error.to_string()),
    };
    let place = place_of(&place, &message);
    let message = with_nearest(&words::plain(&message));
    JsonError::Data(format!("{place}{message}"))
}

/// Returns the path of a field as requests name it: `[3].priority` is `#3: priority: `. An unknown field is
/// named in the message.
fn place_of(path: &str, message: &str) -> String {
    let element = path.strip_prefix('[').and_then(|path| path.split_once(']'));
    let (element, field) = match element {
        Some((n, field)) => (format!("#{n}: "), field.trim_start_matches('.')),
        None => (String::new(), path),
    };
    match field {
        "" | "." => element,
        _ if message.starts_with("unknown field") => element,
        field => format!("{element}{field}: "),
    }
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
const SIMILARITY_MIN: f64 = 0.8;

/// Returns the known name that is most similar to `unknown`, if any is similar enough.
pub fn nearest<'a>(unknown: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let similarity = |known: &&str| strsim::jaro_winkler(unknown, known);
    known
        .max_by(|a, b| similarity(a).total_cmp(&similarity(b)))
        .filter(|near| similarity(near) >= SIMILARITY_MIN)
}

/// A JSON object. What derives [`Deserialize`] alone would also accept an array of its fields in order.
#[derive(Debug)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }
        deserializer.deserialize_map(Fields(PhantomData)).map(Self)
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
        struct Elements<const N: usize, T>(PhantomData<T>);
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
        deserializer.deserialize_seq(Elements(PhantomData))
    }
}
