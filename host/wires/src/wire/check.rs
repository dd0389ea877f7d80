//! What one question of `host doctor` found.

use serde::Serialize;

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// As it should be.
    Ok,
    /// A host runs, but slower or less protected than it could.
    Warn,
    /// A host does not run, or not for long.
    Fail,
}

/// What one check found.
#[derive(Debug, Serialize)]
pub struct Check {
    /// What was looked at, in a word or two.
    pub name: &'static str,
    /// How it went.
    pub status: Status,
    /// What was found, in words.
    pub found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl Check {
    /// Makes the result of a check that found all as it should be.
    pub fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            status: Status::Ok,
            found: found.into(),
            next: None,
        }
    }

    /// Makes the result of a check that found something to improve.
    pub fn warn(name: &'static str, found: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            status: Status::Warn,
            next: Some(next.into()),
            ..Self::ok(name, found)
        }
    }

    /// Makes the result of a check that failed.
    pub fn fail(name: &'static str, found: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            status: Status::Fail,
            next: Some(next.into()),
            ..Self::ok(name, found)
        }
    }
}
