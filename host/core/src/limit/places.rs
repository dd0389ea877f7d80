//! How much of a key is used, whether it has room, and when it will.

use serde::{Deserialize, Serialize};

use super::{Limit, Rate};
use crate::time::Time;

/// Nanoseconds in a millisecond: the tokens of a bucket are counted in time, so that one number says all.
const NS: i128 = 1_000_000;

/// How much of a key is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyUse {
    /// Jobs that are available, each with a token of the bucket put aside.
    pub reserved: u32,
    pub running: u32,
    /// Jobs that wait for a place or a token of this key.
    pub waiting: u64,
    /// When the bucket is full again if no job starts, in nanoseconds since the Unix epoch. Each start moves it by the time
    /// of a token.
    pub refilled_at_ns: i64,
}

impl Rate {
    /// Returns the interval at which tokens are added, in nanoseconds.
    fn token_ns(&self) -> i128 {
        let per_ns = i128::from(self.per_seconds) * 1_000 * NS;
        let count = i128::from(self.count.max(1));
        (per_ns + count - 1) / count
    }

    /// Returns how many whole tokens are in the bucket.
    fn tokens(&self, used: &KeyUse, now: Time) -> i128 {
        let taken_ns = (i128::from(used.refilled_at_ns) - i128::from(now.0) * NS).max(0);
        (i128::from(self.burst) * self.token_ns() - taken_ns).div_euclid(self.token_ns())
    }

    /// Returns when the bucket has this many tokens if no job starts; `None` if it never holds as many.
    fn has_tokens_at(&self, used: &KeyUse, tokens: i128) -> Option<Time> {
        let spare = i128::from(self.burst) - tokens;
        let at_ns = i128::from(used.refilled_at_ns) - spare * self.token_ns();
        (spare >= 0).then(|| ms_of(at_ns))
    }
}

/// Returns the first millisecond that is not before an instant.
fn ms_of(ns: i128) -> Time {
    let ms = (ns + NS - 1).div_euclid(NS);
    Time(i64::try_from(ms).unwrap_or(i64::MAX))
}

impl KeyUse {
    /// Takes a place for a job that becomes available.
    pub fn reserve(&mut self) {
        self.reserved += 1;
    }

    /// Makes the place of an available job that of a running one.
    pub fn start(&mut self, rate: Option<&Rate>, now: Time) {
        self.reserved = self.reserved.saturating_sub(1);
        self.running += 1;
        if let Some(rate) = rate {
            let full_ns = i128::from(self.refilled_at_ns).max(i128::from(now.0) * NS);
            let full_ns = full_ns + rate.token_ns();
            self.refilled_at_ns = i64::try_from(full_ns).unwrap_or(i64::MAX);
        }
    }

    /// Gives a place back.
    pub fn release(&mut self, was_running: bool) {
        let place = if was_running {
            &mut self.running
        } else {
            &mut self.reserved
        };
        *place = place.saturating_sub(1);
    }

    /// Returns whether it equals the state of an unused key.
    pub fn is_idle(&self, now: Time) -> bool {
        self.reserved == 0 && self.running == 0 && self.waiting == 0 && self.refilled(now)
    }

    fn refilled(&self, now: Time) -> bool {
        i128::from(self.refilled_at_ns) <= i128::from(now.0) * NS
    }
}

impl Limit {
    /// Returns whether one more job of a key may become available.
    pub fn has_room(&self, used: &KeyUse, now: Time) -> bool {
        let reserved = i128::from(used.reserved);
        self.has_place(used)
            && self
                .rate
                .is_none_or(|rate| rate.tokens(used, now) > reserved)
    }

    fn has_place(&self, used: &KeyUse) -> bool {
        let places = u64::from(used.reserved) + u64::from(used.running);
        self.concurrency.is_none_or(|most| places < u64::from(most))
    }

    /// Returns how many more jobs of a key may become available.
    pub fn room(&self, used: &KeyUse, now: Time) -> u64 {
        let places = i128::from(used.reserved) + i128::from(used.running);
        let by_places = self.concurrency.map(|most| i128::from(most) - places);
        let reserved = i128::from(used.reserved);
        let by_tokens = self.rate.map(|rate| rate.tokens(used, now) - reserved);
        let least = by_places.into_iter().chain(by_tokens).min();
        least.map_or(u64::MAX, |room| {
            u64::try_from(room.max(0)).unwrap_or(u64::MAX)
        })
    }

    /// Returns when time alone changes something about a key: when a waiting job may be admitted, or when the bucket of a
    /// key that is not used is full. Waiting jobs that a command has left behind can be admitted at once.
    pub fn wake_at(&self, used: &KeyUse, now: Time) -> Option<Time> {
        if used.waiting == 0 {
            let is_unused = used.reserved == 0 && used.running == 0;
            return (is_unused && !used.refilled(now)).then(|| ms_of(used.refilled_at_ns.into()));
        }
        if !self.has_place(used) {
            return None;
        }
        let reserved = i128::from(used.reserved);
        match self.rate {
            Some(rate) if rate.tokens(used, now) <= reserved => {
                rate.has_tokens_at(used, reserved + 1)
            }
            _ => Some(now),
        }
    }
}
