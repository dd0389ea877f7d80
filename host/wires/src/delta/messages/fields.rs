//! Reads the fields of a message by their names. An error describes a wrong value by its type and
//! length, never by its content. Knows no message.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::delta::refusals::{Code, Refused};
use crate::kit::json;

pub(in crate::delta) use crate::kit::text::{cut, found};

/// The fields of one object, as far as their names are known. Others are ignored.
#[derive(Debug)]
pub(in crate::delta) struct Fields<'a>(BTreeMap<&'static str, &'a RawValue>);

struct Names(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for Names {
    type Value = Fields<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Names {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = BTreeMap::new();
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match self.0.iter().find(|name| **name == key) {
                Some(name) => {
                    fields.insert(*name, map.next_value::<&'de RawValue>()?);
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Fields(fields))
    }
}

impl<'a> Fields<'a> {
    /// Reads a whole document strictly, and keeps the fields with these names.
    pub(in crate::delta) fn read(
        text: &'a [u8],
        names: &'static [&'static str],
    ) -> Result<Self, Refused> {
        json::check(text).map_err(|fault| {
            let message = format!("the body, at byte {}: {}", fault.offset, fault.message);
            Refused::new(Code::Json, message)
        })?;
        let text = std::str::from_utf8(text).unwrap_or_default();
        Self::within(text, names).map_err(|found| {
            Refused::new(
                Code::FieldType,
                format!("the body is {found}, not an object"),
            )
        })
    }

    /// Keeps the fields of an object that was checked before. The error says what it is instead.
    pub(in crate::delta) fn within(
        text: &'a str,
        names: &'static [&'static str],
    ) -> Result<Self, String> {
        let mut document = serde_json::Deserializer::from_str(text);
        Names(names)
            .deserialize(&mut document)
            .map_err(|_| found(text))
    }

    /// Returns whether a field is there, even if it is `null`.
    pub(in crate::delta) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns a field as it stands there; `None` if it is absent or `null`.
    pub(in crate::delta) fn raw(&self, name: &str) -> Option<&'a RawValue> {
        let raw = self.0.get(name).copied();
        raw.filter(|raw| raw.get() != "null")
    }

    /// Reads a field that may be absent.
    pub(in crate::delta) fn optional<T: Deserialize<'a>>(
        &self,
        name: &str,
        wanted: &str,
    ) -> Result<Option<T>, Refused> {
        let read = |raw: &'a RawValue| {
            let value = serde_json::from_str(raw.get());
            value.map_err(|_| wrong(name, wanted, &found(raw.get())))
        };
        self.raw(name).map(read).transpose()
    }

    /// Reads a text of at most `bytes_max` bytes that must be there.
    pub(in crate::delta) fn text(&self, name: &str, bytes_max: usize) -> Result<String, Refused> {
        let text: Option<String> = self.optional(name, "a string")?;
        let text = text.ok_or_else(|| wrong(name, "a string", "nothing"))?;
        within_bytes(name, text, bytes_max)
    }
}

/// Refuses a text that is too long.
pub(in crate::delta) fn within_bytes(
    name: &str,
    text: String,
    most: usize,
) -> Result<String, Refused> {
    if text.len() <= most {
        return Ok(text);
    }
    let message = format!("{name}: must be at most {most} bytes, got {}", text.len());
    Err(Refused::new(Code::FieldRange, message))
}

pub(in crate::delta) fn wrong(name: &str, wanted: &str, found: &str) -> Refused {
    Refused::new(
        Code::FieldType,
        format!("{name}: expected {wanted}, found {found}"),
    )
}
