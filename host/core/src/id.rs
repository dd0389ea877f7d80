//! Identifiers. Callers make them; this crate generates no random numbers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Identifies a job: a `UUIDv7`, so ids sort by enqueue time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub Uuid);

impl JobId {
    /// Returns another id that follows from this one, with its time.
    #[must_use]
    pub const fn beside(self, place: u8) -> Self {
        Self(Uuid::from_u128(self.0.as_u128() ^ ((place as u128) << 32)))
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for JobId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::parse_str(text).map(Self)
    }
}

/// How many characters an id has.
const ID_CHARS: usize = 36;

/// Where an id has dashes.
const DASHES: [usize; 4] = [8, 13, 18, 23];

/// Returns an id, or the start of one, as ids are written: in lower case, with dashes. It may have all of them or none.
/// `None` if it is neither.
pub fn start_of_id(text: &str) -> Option<String> {
    let mut written = String::with_capacity(ID_CHARS);
    let has_dashes = text.contains('-');
    for c in text.chars() {
        if DASHES.contains(&written.len()) {
            written.push('-');
            match (has_dashes, c) {
                (true, '-') => continue,
                (true, _) => return None,
                (false, _) => {}
            }
        }
        if written.len() == ID_CHARS || !c.is_ascii_hexdigit() {
            return None;
        }
        written.push(c.to_ascii_lowercase());
    }
    (!written.is_empty()).then_some(written)
}

/// Identifies a batch of jobs: a `UUIDv7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BatchId(pub Uuid);

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for BatchId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::parse_str(text).map(Self)
    }
}

/// Identifies a node: one host that claims jobs from a store, which other hosts may share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub Uuid);

impl NodeId {
    /// The node of leases that were granted before leases recorded their node.
    pub const NIL: Self = Self(Uuid::nil());
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for NodeId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::parse_str(text).map(Self)
    }
}

/// Identifies one lease of one job: 122 random bits that only its holder knows.
///
/// A secret on the wires that carry it: `Debug` shows two bytes and there is no `Display`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaseId(pub Uuid);

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [.., high, low] = *self.0.as_bytes();
        write!(f, "lease:…{high:02x}{low:02x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_may_have_all_of_its_dashes_or_none() {
        let whole = "01a2098e-9de4-7a84-876f-11494b8b5f34";
        for (text, written) in [
            (whole, Some(whole)),
            ("01a2098e9de47a84876f11494b8b5f34", Some(whole)),
            ("01A2098E9DE47A84876F11494B8B5F34", Some(whole)),
            ("01a2098e9", Some("01a2098e-9")),
            ("01a2098e-9", Some("01a2098e-9")),
            ("01a2098e-", Some("01a2098e-")),
            ("01a2098e", Some("01a2098e")),
            ("0", Some("0")),
            ("", None),
            ("-", None),
            ("01a2-098e", None),
            ("01a2098e9-de4", None),
            ("01a2098e-9de47a84876f11494b8b5f34", None),
            ("01a2098e-9de4-7a84-876f-11494b8b5f340", None),
            ("01a2098e9de47a84876f11494b8b5f340", None),
            ("01a2098g", None),
            ("\u{e9}", None),
        ] {
            assert_eq!(start_of_id(text).as_deref(), written, "{text}");
        }
    }
}
