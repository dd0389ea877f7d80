//! The state that handlers keep: values by key, in spaces. Each handler has a space of its own, and manifests name
//! those that handlers share.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::name::{Name, NameError};
use crate::time::Time;

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 512;

/// The largest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 1 << 20;

/// The overhead charged for each key, in addition to the bytes of key and value.
pub(crate) const ENTRY_OVERHEAD_BYTES: u64 = 64;

/// The most keys of one command, and of one page of a list.
pub const KEYS_MAX: usize = 1_000;

/// The default of [`StateGrant::quota_kib`].
pub const QUOTA_KIB_DEFAULT: u64 = 16 << 10;

/// The highest [`StateGrant::quota_kib`].
pub const QUOTA_KIB_MAX: u64 = 1 << 20;

/// The most spaces that a handler shares with others.
pub const SHARED_MAX: usize = 64;

/// State that a handler may keep, as its manifest grants it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StateGrant {
    /// The largest size of a space to which the handler may add, in KiB.
    pub quota_kib: u64,
    /// The spaces that it shares with other handlers.
    pub shared: Vec<Name>,
}

impl Default for StateGrant {
    fn default() -> Self {
        Self {
            quota_kib: QUOTA_KIB_DEFAULT,
            shared: Vec::new(),
        }
    }
}

impl StateGrant {
    /// Returns what is wrong with it: the key, its value, and what is expected.
    pub fn flaw(&self) -> Option<(&'static str, String, String)> {
        if !(1..=QUOTA_KIB_MAX).contains(&self.quota_kib) {
            let expected = format!("1–{QUOTA_KIB_MAX}");
            return Some(("state.quota_kib", self.quota_kib.to_string(), expected));
        }
        let spaces = self.shared.len();
        (spaces > SHARED_MAX).then(|| {
            let expected = format!("at most {SHARED_MAX}");
            ("state.shared", format!("{spaces} entries"), expected)
        })
    }
}

/// Where a key is: `handler:NAME`, the space of one handler, or `shared:NAME`, one that manifests share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Space {
    Handler(Name),
    Shared(Name),
}

/// Why a text is not a [`Space`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SpaceError {
    #[error("a space of state is named handler:NAME or shared:NAME")]
    Kind,
    #[error(transparent)]
    Name(#[from] NameError),
}

const HANDLER: &str = "handler:";
const SHARED: &str = "shared:";

impl FromStr for Space {
    type Err = SpaceError;

    fn from_str(text: &str) -> Result<Self, SpaceError> {
        if let Some(name) = text.strip_prefix(HANDLER) {
            Ok(Self::Handler(name.parse()?))
        } else if let Some(name) = text.strip_prefix(SHARED) {
            Ok(Self::Shared(name.parse()?))
        } else {
            Err(SpaceError::Kind)
        }
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handler(name) => write!(f, "{HANDLER}{name}"),
            Self::Shared(name) => write!(f, "{SHARED}{name}"),
        }
    }
}

impl TryFrom<String> for Space {
    type Error = SpaceError;

    fn try_from(text: String) -> Result<Self, SpaceError> {
        text.parse()
    }
}

impl From<Space> for String {
    fn from(space: Space) -> Self {
        space.to_string()
    }
}

/// Why a text cannot be a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    #[error("a key of state must have 1–{KEY_BYTES_MAX} bytes, got {0}")]
    Length(usize),
    #[error("a key of state must not have control characters")]
    Control,
}

/// Checks a key.
pub fn check_key(key: &str) -> Result<(), KeyError> {
    if !(1..=KEY_BYTES_MAX).contains(&key.len()) {
        return Err(KeyError::Length(key.len()));
    }
    if key.chars().any(char::is_control) {
        return Err(KeyError::Control);
    }
    Ok(())
}

/// One change of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateWrite {
    pub key: String,
    /// The new value; `None` removes the key.
    pub value: Option<Vec<u8>>,
    /// The value that the key must have before; `Some(None)` means no value.
    pub expected: Option<Option<Vec<u8>>>,
}

impl StateWrite {
    /// Returns how many bytes it takes.
    pub fn bytes(&self) -> usize {
        let length = |value: &Option<Vec<u8>>| value.as_ref().map_or(0, Vec::len);
        self.key.len() + length(&self.value) + self.expected.as_ref().map_or(0, length)
    }
}

/// Changes in one space, all or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateWrites {
    pub space: Space,
    /// A change that makes the space larger is refused above this size, in bytes.
    pub quota_bytes: u64,
    /// Each key appears once.
    pub writes: Vec<StateWrite>,
}

/// How much a space has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub keys: u64,
    /// The keys and values, and [`ENTRY_OVERHEAD_BYTES`] for each.
    pub bytes: u64,
}

impl Usage {
    /// Returns the usage after the value of `key` has changed between these lengths.
    #[must_use]
    pub fn changed(self, key: &str, before: Option<u64>, after: Option<u64>) -> Self {
        let bytes = |value: Option<u64>| {
            value.map_or(0, |value| value + key.len() as u64 + ENTRY_OVERHEAD_BYTES)
        };
        let keys = |value: Option<u64>| u64::from(value.is_some());
        Self {
            keys: (self.keys + keys(after)).saturating_sub(keys(before)),
            bytes: (self.bytes + bytes(after)).saturating_sub(bytes(before)),
        }
    }
}

/// A space, and how much it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceUsage {
    pub space: Space,
    pub usage: Usage,
}

/// A key, without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateKey {
    pub key: String,
    /// The length of the value.
    pub bytes: u64,
    /// When it was written last.
    pub at: Time,
}

/// Returns where the keys begin that start with `prefix` and come after the key `after`, and whether the first of them
/// comes after that place.
pub fn first_key<'a>(prefix: &'a str, after: &'a str) -> (&'a str, bool) {
    if after < prefix {
        (prefix, false)
    } else {
        (after, !after.is_empty())
    }
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateValue {
    pub value: Vec<u8>,
    /// When it was written last.
    pub at: Time,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_space_is_what_its_name_says() {
        for text in ["handler:math/sum", "shared:cursors", "handler:shared:x"] {
            assert_eq!(text.parse::<Space>().unwrap().to_string(), text);
        }
        for text in ["", "cursors", "handler:", "shared:a b", "Handler:a"] {
            assert!(text.parse::<Space>().is_err(), "{text}");
        }
    }

    #[test]
    fn usage_follows_changes() {
        let none = Usage::default();
        let one = none.changed("key", None, Some(10));
        assert_eq!(one, Usage { keys: 1, bytes: 77 });
        assert_eq!(one.changed("key", Some(10), Some(0)).bytes, 67);
        assert_eq!(one.changed("key", Some(10), None), none);
        assert_eq!(none.changed("key", None, None), none);
    }

    #[test]
    fn keys_are_short_and_printable() {
        assert_eq!(check_key("a/b c ü"), Ok(()));
        assert_eq!(check_key(""), Err(KeyError::Length(0)));
        assert_eq!(check_key("a\0"), Err(KeyError::Control));
        let long = "x".repeat(KEY_BYTES_MAX + 1);
        assert_eq!(check_key(&long), Err(KeyError::Length(KEY_BYTES_MAX + 1)));
    }
}
