//! The scope of a unique key as a request writes it: a word, or an object with a number of seconds.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use utoipa::ToSchema;

/// Which earlier job with the same key stands for the new one.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = UniqueScope)]
#[serde(rename_all = "snake_case")]
pub(super) enum ScopeEntry {
    /// One that has not ended.
    #[default]
    Active,
    /// Any, if the newest with this key is still kept.
    Retained,
    /// One that has not ended or was enqueued within so many seconds, as long as it is kept: its retention
    /// should not end sooner.
    Seconds(f64),
}

/// Reads a scope. The derived reader would take anything else for a document that is no JSON.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ScopeEntry, D::Error> {
    deserializer.deserialize_any(ScopeVisitor)
}

struct ScopeVisitor;

impl<'de> Visitor<'de> for ScopeVisitor {
    type Value = ScopeEntry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(r#"`active`, `retained` or {"seconds": N}"#)
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<ScopeEntry, E> {
        match word {
            "active" => Ok(ScopeEntry::Active),
            "retained" => Ok(ScopeEntry::Retained),
            other => Err(E::invalid_value(serde::de::Unexpected::Str(other), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ScopeEntry, A::Error> {
        let mut seconds = None;
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            if key != "seconds" {
                return Err(A::Error::unknown_field(&key, &["seconds"]));
            }
            seconds = Some(map.next_value()?);
        }
        let missing = || A::Error::missing_field("seconds");
        seconds.map(ScopeEntry::Seconds).ok_or_else(missing)
    }
}
