//! Names of handlers, queues and components, which users choose.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use compact_str::CompactString;
use serde::{Deserialize, Serialize, Serializer};
use thiserror::Error;

/// The longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 128;

/// A name of 1–128 characters out of `A–Z a–z 0–9 _ . : / -`. One of up to 24 needs no memory beside
/// its own value, so copies are cheap.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "CompactString")]
pub struct Name(CompactString);

/// Why a text is not a [`Name`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    #[error("a name must not be empty")]
    Empty,
    #[error("a name may have at most {NAME_BYTES_MAX} bytes, got {bytes}")]
    TooLong {
        /// The length of the text.
        bytes: usize,
    },
    /// The text has a character that is not allowed.
    #[error(
        "a name may contain only A-Z a-z 0-9 _ . : / -; character {position} is not one of these"
    )]
    Character {
        /// The position of the first such character, counted from 1.
        position: usize,
    },
}

impl Name {
    /// Returns the queue of jobs that name no queue.
    pub fn default_queue() -> Self {
        Self(CompactString::const_new("default"))
    }

    /// Returns a name that is known to be one.
    pub const fn constant(name: &'static str) -> Self {
        Self(CompactString::const_new(name))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Separates the name of an executor from the name of its handler.
pub const EXECUTOR_SEPARATOR: char = '#';

/// Returns a handler's name as users write it: `send_email`, or `python#send_email` at an executor.
pub fn address<'a>(executor: Option<&Name>, handler: &'a Name) -> Cow<'a, str> {
    match executor {
        None => Cow::Borrowed(handler.as_str()),
        Some(executor) => Cow::Owned(format!("{executor}{EXECUTOR_SEPARATOR}{handler}")),
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        check(text)?;
        Ok(Self(text.into()))
    }
}

impl TryFrom<CompactString> for Name {
    type Error = NameError;

    fn try_from(text: CompactString) -> Result<Self, NameError> {
        check(&text)?;
        Ok(Self(text))
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0.into_string()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn check(text: &str) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.len() > NAME_BYTES_MAX {
        return Err(NameError::TooLong { bytes: text.len() });
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_.:/-".contains(c);
    match text.chars().position(|c| !allowed(c)) {
        Some(index) => Err(NameError::Character {
            position: index + 1,
        }),
        None => Ok(()),
    }
}
