//! JSON from outside, read strictly: no key twice, no number that no double holds, bounded depth,
//! and errors that name the field and the nearest one that exists.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

use host_core::json::Strict;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;

use super::problem::{Code, Problem};

/// Reads a document as `T`.
pub(super) fn read<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, Problem> {
    serde_json::from_slice(text).map_err(|error| explain::<T>(text, &error))
}

/// Reads an object as `T`; [`read`] would also take an array of its fields in their order.
pub(super) fn read_object<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, Problem> {
    if text.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        check(text)?;
        return Err(Problem::new(
            Code::InvalidRequest,
            "invalid type: it is an object",
        ));
    }
    read(text)
}

/// Reads an object as `T`, an empty text as its default.
pub(super) fn read_or_default<'a, T: Deserialize<'a> + Default>(
    text: &'a [u8],
) -> Result<T, Problem> {
    if text.is_empty() {
        return Ok(T::default());
    }
    read_object(text)
}

/// Checks a document that is kept as text.
pub(super) fn check(text: &[u8]) -> Result<(), Problem> {
    let mut document = serde_json::Deserializer::from_slice(text);
    Strict
        .deserialize(&mut document)
        .and_then(|()| document.end())
        .map_err(|error| Problem::new(Code::InvalidJson, error.to_string()))
}

/// Says what is wrong, with the path of the field. Looks at the document again, for that costs more
/// than reading it.
fn explain<'a, T: Deserialize<'a>>(text: &'a [u8], error: &serde_json::Error) -> Problem {
    if error.classify() != Category::Data {
        return Problem::new(Code::InvalidJson, error.to_string());
    }
    if let Err(problem) = check(text) {
        return problem;
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
    Problem::new(Code::InvalidRequest, with_nearest(&message))
}

/// Turns serde's message about an unknown field into one that names the nearest known field.
pub(super) fn with_nearest(message: &str) -> String {
    let Some((before, after)) = message.split_once("unknown field `") else {
        return message.to_owned();
    };
    let mut quoted = after.split('`');
    let unknown = quoted.next().unwrap_or_default();
    let known: Vec<&str> = quoted.skip(1).step_by(2).collect();
    let advice = match meant(unknown, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "nothing is known here".to_owned(),
        None => format!("known are `{}`", known.join("`, `")),
    };
    format!("{before}unknown field `{unknown}`; {advice}")
}

/// How like a known name another must be to be meant by it, of 1.
const LIKENESS_MIN: f64 = 0.7;

/// Returns the known name that may be meant by `unknown`.
pub(super) fn meant<'a>(unknown: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let like = |known: &&str| strsim::jaro_winkler(unknown, known);
    known
        .max_by(|a, b| like(a).total_cmp(&like(b)))
        .filter(|near| like(near) >= LIKENESS_MIN)
}

/// Pairs of an object, in its order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pairs(pub(super) Vec<(String, String)>);

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
pub(super) struct AtMost<const N: usize, T> {
    /// The elements.
    pub(super) elements: Vec<T>,
    /// Whether others followed.
    pub(super) more: bool,
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
