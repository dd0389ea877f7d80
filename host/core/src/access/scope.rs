//! Scopes: globs over the names of queues and handlers.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::name::{EXECUTOR_SEPARATOR, NAME_BYTES_MAX};

/// The longest glob, in bytes: the name of a handler behind that of its executor.
pub const GLOB_BYTES_MAX: usize = 2 * NAME_BYTES_MAX + 1;

/// The most globs of queues, and of handlers, in a scope.
pub const GLOBS_MAX: usize = 64;

/// A name in which each `*` matches any characters, also none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Glob(String);

/// Why a text is not a glob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GlobError {
    #[error("must have 1–{GLOB_BYTES_MAX} bytes")]
    Length,
    #[error("may contain only * and A-Z a-z 0-9 _ . : / - #")]
    Character,
}

impl TryFrom<String> for Glob {
    type Error = GlobError;

    fn try_from(text: String) -> Result<Self, GlobError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "_.:/-*#".contains(c);
        if text.is_empty() || text.len() > GLOB_BYTES_MAX {
            return Err(GlobError::Length);
        }
        if !text.chars().all(allowed) {
            return Err(GlobError::Character);
        }
        Ok(Self(text))
    }
}

impl From<Glob> for String {
    fn from(glob: Glob) -> Self {
        glob.0
    }
}

impl Glob {
    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether a name matches. Takes at most the product of both lengths.
    pub fn has(&self, name: &str) -> bool {
        matches(self.0.as_bytes(), &[name.as_bytes()])
    }

    /// Returns whether the address of a handler matches.
    pub(crate) fn has_handler(&self, executor: Option<&str>, handler: &str) -> bool {
        let handler = handler.as_bytes();
        match executor {
            None => matches(self.0.as_bytes(), &[handler]),
            Some(executor) => {
                let mut room = [0; 4];
                let separator = EXECUTOR_SEPARATOR.encode_utf8(&mut room).as_bytes();
                matches(
                    self.0.as_bytes(),
                    &[executor.as_bytes(), separator, handler],
                )
            }
        }
    }

    /// Returns whether every name that matches another glob matches this one. The `*` of the other is a character
    /// that no name has, so only a `*` of this one matches it.
    fn covers(&self, other: &Self) -> bool {
        self.has(&other.0)
    }
}

/// Matches a text in parts, byte by byte: after a mismatch the last `*` takes one byte more.
fn matches(glob: &[u8], parts: &[&[u8]]) -> bool {
    let length = parts.iter().map(|part| part.len()).sum();
    let byte = |mut at: usize| {
        for part in parts {
            match part.get(at) {
                Some(byte) => return Some(*byte),
                None => at -= part.len(),
            }
        }
        None
    };
    let (mut g, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < length {
        match glob.get(g) {
            Some(b'*') => {
                star = Some((g, t));
                g += 1;
            }
            Some(letter) if Some(*letter) == byte(t) => {
                g += 1;
                t += 1;
            }
            _ => {
                let Some((at, taken)) = star else {
                    return false;
                };
                star = Some((at, taken + 1));
                g = at + 1;
                t = taken + 1;
            }
        }
    }
    glob.get(g..)
        .unwrap_or_default()
        .iter()
        .all(|it| *it == b'*')
}

/// What a request is about, as far as scopes matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object<'a> {
    /// Nothing with a queue or a handler, or something that the handler of the route compares itself.
    Host,
    /// A queue, whatever its jobs' handlers are.
    Queue(&'a str),
    /// A handler, with the executor that has it.
    Handler(Option<&'a str>, &'a str),
    /// A job: its queue, the executor and the handler.
    Job(&'a str, Option<&'a str>, &'a str),
}

/// The queues and handlers that a principal may name and see. An empty list means all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scope {
    pub queues: Vec<Glob>,
    /// Matched against addresses: `send_email`, `python#send_email`.
    pub handlers: Vec<Glob>,
}

impl Scope {
    /// Every queue and handler.
    pub const ALL: Self = Self {
        queues: Vec::new(),
        handlers: Vec::new(),
    };

    /// Returns whether it has every queue and handler.
    pub const fn is_all(&self) -> bool {
        self.queues.is_empty() && self.handlers.is_empty()
    }

    /// Returns whether an object is in it.
    pub fn has(&self, object: Object<'_>) -> bool {
        let queue =
            |name: &str| self.queues.is_empty() || self.queues.iter().any(|glob| glob.has(name));
        let handler = |executor: Option<&str>, name: &str| {
            let mut globs = self.handlers.iter();
            self.handlers.is_empty() || globs.any(|glob| glob.has_handler(executor, name))
        };
        match object {
            Object::Host => true,
            Object::Queue(name) => queue(name),
            Object::Handler(executor, name) => handler(executor, name),
            Object::Job(in_queue, executor, name) => queue(in_queue) && handler(executor, name),
        }
    }

    /// Returns whether all that is in this scope is in another.
    pub fn is_within(&self, other: &Self) -> bool {
        within(&self.queues, &other.queues) && within(&self.handlers, &other.handlers)
    }
}

fn within(inner: &[Glob], outer: &[Glob]) -> bool {
    let covered = |glob: &Glob| outer.iter().any(|it| it.covers(glob));
    outer.is_empty() || (!inner.is_empty() && inner.iter().all(covered))
}
