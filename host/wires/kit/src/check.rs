//! The result of one check of `host doctor`.

use serde::Serialize;

/// The status of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Nothing to do.
    Ok,
    /// A host would run, but more slowly or less protected than it could.
    Warn,
    /// A host would not run, or not for long.
    Fail,
}

/// The result of one check.
#[derive(Debug, Serialize)]
pub struct Check {
    /// What was checked, in a word or two.
    pub name: &'static str,
    /// Its status.
    pub status: Status,
    /// What was found, for people.
    pub found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl Check {
    /// Makes the result of a check with nothing to do.
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
