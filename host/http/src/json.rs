//! JSON from outside, read strictly: no repeated key, no number beyond a double, bounded depth. Errors
//! name the field, and the known field whose name is nearest to an unknown one.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use host_core::json::Strict;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;

/// Why a document is not taken, in words that name the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonError {
    /// It is not JSON, or not strictly: a key is repeated, the nesting is too deep, or a number is
    /// beyond a double.
    Syntax(String),
    /// It is JSON, but a field is unknown, missing, or of another type or range.
    Data(String),
}

impl JsonError {
    /// Puts the place of the document in front of what is wrong.
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

/// Reads an object as `T`; [`read`] would also take an array of its fields in their order.
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

/// Checks a document that is kept as text.
pub fn check(text: &[u8]) -> Result<(), JsonError> {
    let mut document = serde_json::Deserializer::from_slice(text);
    Strict
        .deserialize(&mut document)
        .and_then(|()| document.end())
        .map_err(|error| JsonError::Syntax(error.to_string()))
}

/// Says what is wrong, with the path of the field. Reads the document again: keeping track of the
/// path costs more than plain reading.
fn explain<'a, T: Deserialize<'a>>(text: &'a [u8], error: &serde_json::Error) -> JsonError {
    if error.classify() != Category::Data {
        return JsonError::Syntax(error.to_string());
    }
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
    JsonError::Data(with_nearest(&message))
}

/// Turns serde's message about an unknown field into one that names the nearest known field.
pub fn with_nearest(message: &str) -> String {
    let Some((before, after)) = message.split_once("unknown field `") else {
        return message.to_owned();
    };
    let mut quoted = after.split('`');
    let unknown = quoted.next().unwrap_or_default();
    let known: Vec<&str> = quoted.skip(1).step_by(2).collect();
    let advice = match nearest(unknown, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "no field is known here".to_owned(),
        None => format!("known are `{}`", known.join("`, `")),
    };
    format!("{before}unknown field `{unknown}`; {advice}")
}

/// How similar, up to 1, a known name must be to be suggested for an unknown one.
const SIMILARITY_MIN: f64 = 0.7;

/// Returns the known name that is most similar to `unknown`, if one is similar at all.
pub fn nearest<'a>(unknown: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let similarity = |known: &&str| strsim::jaro_winkler(unknown, known);
    known
        .max_by(|a, b| similarity(a).total_cmp(&similarity(b)))
        .filter(|near| similarity(near) >= SIMILARITY_MIN)
}

/// The pairs of an object of strings, in its order.
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

/// The first `N` elements of an array, and whether there were more.
#[derive(Debug)]
pub struct AtMost<const N: usize, T> {
    /// The elements.
    pub elements: Vec<T>,
    /// Whether others followed.
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
