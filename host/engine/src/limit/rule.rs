//! How much of a key is used, whether it has room, and when it will.

use host_core::time::Time;
use serde::{Deserialize, Serialize};

use super::{FILL_SECONDS_MAX, Limit, Rate};

/// Nanoseconds in a millisecond: the tokens of a bucket are counted in time, so that one number says all.
const NS: i128 = 1_000_000;

/// How much of a key is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyUse {
    /// Jobs that are available, each with its tokens of the bucket put aside.
    pub reserved: u32,
    /// How many units these jobs have.
    pub reserved_units: u64,
    pub running: u32,
    /// Those of them that are listed, and whose cancel is requested.
    pub cancelling: u32,
    /// How many others are still to be cancelled for jobs that wait.
    pub to_cancel: u32,
    /// Jobs that wait for a place or tokens of this key.
    pub waiting: u64,
    /// How many units the first of them has at least.
    pub next_units: u32,
    /// No job starts with the key before: a handler holds it.
    pub held_until: Time,
    /// When the bucket is full again if no job starts, in nanoseconds since the Unix epoch. Each start moves it by the time
    /// of its tokens.
    pub refilled_at_ns: i64,
}

impl Rate {
    /// Returns whether an empty bucket is full again within the longest time.
    pub(super) fn fills_in_time(&self) -> bool {
        u64::from(self.burst) * u64::from(self.per_seconds)
            <= FILL_SECONDS_MAX * u64::from(self.count)
    }

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

    /// Returns how many tokens a start takes of a job that has so many units. One that has more than the bucket holds was
    /// enqueued before the limit was changed: it takes all of it.
    fn tokens_for(&self, units: u32) -> i128 {
        match self.units {
            Some(_) => units.min(self.burst).into(),
            None => 1,
        }
    }

    /// Returns how many tokens must be in the bucket before such a job may become available.
    fn tokens_before(&self, used: &KeyUse, units: u32) -> i128 {
        let reserved: i128 = match self.units {
            Some(_) => used.reserved_units.into(),
            None => used.reserved.into(),
        };
        self.tokens_for(units) + reserved
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
    pub fn reserve(&mut self, units: u32) {
        self.reserved += 1;
        self.reserved_units += u64::from(units);
    }

    /// Makes the place of an available job that of a running one.
    pub fn start(&mut self, units: u32, limit: &Limit, now: Time) {
        self.release(units, false);
        self.running += 1;
        if let Some(rate) = &limit.rate {
            let begin_ns = i128::from(self.refilled_at_ns).max(i128::from(now.0) * NS);
            let full_ns = begin_ns + rate.tokens_for(units) * rate.token_ns();
            self.refilled_at_ns = i64::try_from(full_ns).unwrap_or(i64::MAX);
        }
    }

    /// Gives a place back.
    pub fn release(&mut self, units: u32, was_running: bool) {
        if was_running {
            self.running = self.running.saturating_sub(1);
        } else {
            self.reserved = self.reserved.saturating_sub(1);
            self.reserved_units = self.reserved_units.saturating_sub(units.into());
        }
    }

    /// Adds a job that waits. Any may be the first.
    pub fn wait(&mut self, units: u32) {
        let others = (self.waiting > 0).then_some(self.next_units);
        self.next_units = others.map_or(units, |least| least.min(units));
        self.waiting += 1;
    }

    /// Removes a job that has waited. What the next one takes is not known then.
    pub fn stop_waiting(&mut self) {
        self.waiting = self.waiting.saturating_sub(1);
        self.next_units = 0;
        self.to_cancel = self
            .to_cancel
            .min(u32::try_from(self.waiting).unwrap_or(u32::MAX));
    }

    /// Lets no job start before. A longer hold stays.
    pub fn hold(&mut self, until: Time) {
        self.held_until = self.held_until.max(until);
    }

    /// Returns whether a handler holds the key.
    pub fn is_held(&self, now: Time) -> bool {
        now < self.held_until
    }

    /// Returns whether it equals the state of an unused key.
    pub fn is_idle(&self, now: Time) -> bool {
        self.is_unused() && self.waiting == 0 && now >= self.idle_at()
    }

    fn is_unused(&self) -> bool {
        self.reserved == 0 && self.running == 0
    }

    /// Returns when nothing is left of what jobs have taken and held, if no other starts.
    fn idle_at(&self) -> Time {
        ms_of(self.refilled_at_ns.into()).max(self.held_until)
    }
}

impl Limit {
    /// Returns whether a job of a key that has so many units may become available.
    pub fn has_room(&self, used: &KeyUse, units: u32, now: Time) -> bool {
        let has_tokens = |rate: &Rate| rate.tokens(used, now) >= rate.tokens_before(used, units);
        !used.is_held(now) && self.has_place(used) && self.rate.as_ref().is_none_or(has_tokens)
    }

    fn has_place(&self, used: &KeyUse) -> bool {
        let places = u64::from(used.reserved) + u64::from(used.running);
        self.concurrency.is_none_or(|most| places < u64::from(most))
    }

    /// Returns how many running jobs of a key are in the way of those that wait, besides those that are cancelled already.
    pub fn in_the_way(&self, used: &KeyUse) -> u32 {
        let Some(most) = self.concurrency else {
            return 0;
        };
        let others = used.running.saturating_sub(used.cancelling);
        let wanted = used.waiting + u64::from(used.reserved) + u64::from(others);
        let too_many = wanted.saturating_sub(most.into());
        u32::try_from(too_many).unwrap_or(u32::MAX).min(others)
    }

    /// Returns when time alone changes something about a key: when a waiting job may be admitted, or when the bucket of a
    /// key that is not used is full. Waiting jobs that a command has left behind can be admitted immediately.
    pub fn wake_at(&self, used: &KeyUse, now: Time) -> Option<Time> {
        if used.waiting == 0 {
            return Some(used.idle_at()).filter(|at| used.is_unused() && *at > now);
        }
        if used.to_cancel > 0 {
            return Some(now);
        }
        if !self.has_place(used) {
            return None;
        }
        let tokens_at = match &self.rate {
            Some(rate) => rate.has_tokens_at(used, rate.tokens_before(used, used.next_units))?,
            None => now,
        };
        Some(tokens_at.max(used.held_until).max(now))
    }
}
