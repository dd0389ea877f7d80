//! JSON from a peer, looked at strictly before anything is read from it: no key twice, no number
//! that no double holds, bounded depth, whole UTF-8. Knows no message.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// What is wrong with a document, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Counted from 0, in bytes.
    pub(crate) offset: usize,
    /// For people; quotes nothing of the document but a key that stands twice.
    pub(crate) message: String,
}

/// Looks at a whole document and keeps nothing.
pub(crate) fn check(text: &[u8]) -> Result<(), Fault> {
    let mut document = serde_json::Deserializer::from_slice(text);
    Strict
        .deserialize(&mut document)
        .and_then(|()| document.end())
        .map_err(|error| explain(text, &error))
}

fn explain(text: &[u8], error: &serde_json::Error) -> Fault {
    let lines_before = error.line().saturating_sub(1);
    let line_start: usize = text
        .split_inclusive(|byte| *byte == b'\n')
        .take(lines_before)
        .map(<[u8]>::len)
        .sum();
    let offset = (line_start + error.column().saturating_sub(1)).min(text.len());
    let text = error.to_string();
    let message = text
        .split_once(" at line ")
        .map_or(text.as_str(), |(cause, _)| cause);
    Fault {
        offset,
        message: message.to_owned(),
    }
}

/// How much of a key an error quotes, in characters.
const KEY_QUOTED_MAX: usize = 64;

/// Looks at all of a value. Depth is bounded by the parser, at 127.
struct Strict;

#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(Strict)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut keys = BTreeSet::new();
        while let Some(key) = map.next_key::<Key<'de>>()? {
            if let Some(twice) = keys.replace(key) {
                let quoted: String = twice.0.chars().take(KEY_QUOTED_MAX).collect();
                return Err(A::Error::custom(format!("duplicate key {quoted:?}")));
            }
            map.next_value_seed(Strict)?;
        }
        Ok(())
    }
}
