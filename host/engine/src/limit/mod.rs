//! Limits by key: how many jobs with the same key may run concurrently, and how many may start in a time. A limit is a gate
//! before a job becomes available; the store counts what has passed it. Pure: callers pass the time.

mod apply;
mod command;
mod refusal;
mod rows;
pub mod tables;

mod key;
mod rule;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use host_core::access::{Object, Scope};
use host_core::job::{KeyOfJob, LimitKey, NewJob};
use host_core::name::Name;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::schedule::Source;

pub use self::apply::AT_ONCE;
pub(crate) use self::apply::{Concerning, MOVED_MAX};
pub use self::command::*;
pub use self::key::{KeyPart, KeyPartError};
pub use self::refusal::*;
pub use self::rows::{LimitChange, LimitRows};
pub use self::rule::KeyUse;

/// The most limits of a store.
pub const LIMITS_MAX: usize = 1_000;

/// The most limits that one job may have.
pub const LIMITS_OF_JOB_MAX: usize = 4;

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 256;

/// The most parts of a key.
pub const KEY_PARTS_MAX: usize = 4;

/// The highest concurrency, count and burst.
pub const COUNT_MAX: u32 = 1_000_000;

/// The longest time for which a handler holds a key, in milliseconds: 24 hours.
pub const HOLD_MS_MAX: u64 = 24 * 3_600_000;

/// The longest period of a rate, in seconds: 31 days.
pub const PER_SECONDS_MAX: u32 = 31 * 24 * 3_600;

/// How long a bucket may take to fill, in seconds: 100 years of 365 days.
const FILL_SECONDS_MAX: u64 = 100 * 365 * 24 * 3_600;

/// How many jobs may start per period: a token bucket, from which each start takes one, or as many as the job has units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// How many tokens are added every `per_seconds`.
    pub count: u32,
    pub per_seconds: u32,
    /// How many tokens the bucket holds.
    pub burst: u32,
    /// Where a job says how many tokens a start of it takes: one if it does not say, or without this.
    pub units: Option<KeyPart>,
}

/// What happens to a new job that could start if its key were not full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenFull {
    /// It waits.
    #[default]
    Wait,
    /// It is refused.
    Refuse,
    /// It waits, and those that wait already are cancelled.
    ReplaceWaiting,
    /// It waits, and as many of those that run are cancelled as are in the way, the oldest first.
    CancelRunning,
}

/// A limit, as it was set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    pub name: Name,
    /// The queues and handlers whose jobs it concerns.
    pub matches: Scope,
    /// What makes up a job's key. All jobs have the same key if it is empty.
    pub key: Vec<KeyPart>,
    /// How many jobs of a key may run concurrently.
    pub concurrency: Option<u32>,
    pub rate: Option<Rate>,
    pub when_full: WhenFull,
    pub source: Source,
}

/// Why a limit cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LimitError {
    #[error("concurrency, rate: set one of them, or both")]
    Unlimited,
    #[error("{field}: must be 1–{most}, got {got}")]
    Number {
        field: &'static str,
        most: u32,
        got: u32,
    },
    #[error(
        "rate: {count} in {per_seconds} s would take more than 100 years to fill a burst of {burst}"
    )]
    TooSlow {
        count: u32,
        per_seconds: u32,
        burst: u32,
    },
    #[error("when_full: cancel_running needs concurrency: a rate does not depend on what runs")]
    CancelsForRate,
    #[error("key: must have at most {KEY_PARTS_MAX} parts, got {0}")]
    KeyParts(usize),
}

impl Limit {
    /// Returns why it cannot be set.
    pub fn check(&self) -> Result<(), LimitError> {
        let rate = self.rate.as_ref().map(|rate| {
            [
                ("rate.count", COUNT_MAX, rate.count),
                ("rate.per_seconds", PER_SECONDS_MAX, rate.per_seconds),
                ("rate.burst", COUNT_MAX, rate.burst),
            ]
        });
        let concurrency = self
            .concurrency
            .map(|jobs| ("concurrency", COUNT_MAX, jobs));
        let numbers = concurrency.into_iter().chain(rate.into_iter().flatten());
        for (field, most, got) in numbers {
            if !(1..=most).contains(&got) {
                return Err(LimitError::Number { field, most, got });
            }
        }
        match &self.rate {
            None if self.concurrency.is_none() => return Err(LimitError::Unlimited),
            Some(rate) if !rate.fills_in_time() => {
                return Err(LimitError::TooSlow {
                    count: rate.count,
                    per_seconds: rate.per_seconds,
                    burst: rate.burst,
                });
            }
            _ => {}
        }
        if self.when_full == WhenFull::CancelRunning && self.concurrency.is_none() {
            return Err(LimitError::CancelsForRate);
        }
        let parts = self.key.len();
        if parts > KEY_PARTS_MAX {
            return Err(LimitError::KeyParts(parts));
        }
        Ok(())
    }

    /// Returns whether it concerns a new job.
    fn concerns(&self, new: &NewJob) -> bool {
        let executor = new.executor.as_ref().map(Name::as_str);
        let object = Object::Job(new.queue.as_str(), executor, new.handler.as_str());
        self.matches.has(object)
    }
}

/// A limit in a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptLimit {
    /// Names it in jobs. Never used again.
    pub number: u64,
    pub limit: Limit,
    /// Whether it only remains until no job waits for it any more.
    pub is_removed: bool,
    /// From which key on ticks still have to look for jobs that a change of the limit lets pass.
    pub cursor: Option<String>,
}

impl KeptLimit {
    /// Returns whether ticks have to look at it.
    pub const fn has_changed(&self) -> bool {
        self.is_removed || self.cursor.is_some()
    }
}

impl FromIterator<KeptLimit> for Limits {
    fn from_iter<I: IntoIterator<Item = KeptLimit>>(kept: I) -> Self {
        Self(kept.into_iter().map(|it| (it.number, it)).collect())
    }
}

/// The limits of a store by number, also those that were removed and for which jobs still wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits(pub BTreeMap<u64, KeptLimit>);

impl Limits {
    /// Returns the limit with a name.
    pub fn named(&self, name: &Name) -> Option<&KeptLimit> {
        let mut kept = self.0.values().filter(|kept| !kept.is_removed);
        kept.find(|kept| kept.limit.name == *name)
    }

    /// Returns the limit that a job names by this number, unless it was removed.
    pub fn get(&self, number: u64) -> Option<&Limit> {
        let kept = self.0.get(&number).filter(|kept| !kept.is_removed);
        kept.map(|kept| &kept.limit)
    }

    /// Returns the limit with this number if it does this when a key is full.
    pub fn get_if(&self, number: u64, when_full: WhenFull) -> Option<&Limit> {
        self.get(number).filter(|it| it.when_full == when_full)
    }

    /// Returns the numbers of the limits that concern jobs with the queue, executor and handler of a new one.
    pub fn concerning(&self, new: &NewJob) -> Vec<u64> {
        let kept = self.0.iter().filter(|(_, it)| !it.is_removed);
        let concerning = kept.filter(|(_, it)| it.limit.concerns(new));
        concerning.map(|(number, _)| *number).collect()
    }

    /// Returns the keys of a new job that these limits concern, and what it takes of each.
    pub fn keys_of(&self, new: &NewJob, concerning: &[u64]) -> Result<Vec<KeyOfJob>, LimitRefusal> {
        if concerning.len() > LIMITS_OF_JOB_MAX {
            return Err(LimitRefusal::TooManyOfJob {
                limit: LIMITS_OF_JOB_MAX,
            });
        }
        let mut keys = Vec::with_capacity(concerning.len());
        for number in concerning {
            let Some(limit) = self.get(*number) else {
                continue;
            };
            let key = limit.key_of(&new.payload);
            if key.len() > KEY_BYTES_MAX {
                return Err(LimitRefusal::KeyTooLong {
                    limit: limit.name.clone(),
                    bytes: key.len(),
                    bytes_max: KEY_BYTES_MAX,
                });
            }
            keys.push(KeyOfJob {
                units: limit.units_of(&new.payload)?,
                is_listed: false,
                key: LimitKey {
                    limit: *number,
                    key: key.into(),
                },
            });
        }
        Ok(keys)
    }
}
