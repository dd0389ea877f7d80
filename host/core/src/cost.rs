//! The cost of handlers' attempts over the last hour and the last day, by revision of their component.
//! Bounded: an hour is twelve steps, a day is 24, and the number of revisions is limited.

pub(crate) mod histogram;

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use self::histogram::Histogram;
use crate::outcome::{Attempt, Meter};
use crate::time::Time;

/// How many revisions are kept, over all handlers. The least recently used one is dropped first.
pub const REVISIONS_MAX: usize = 128;

/// The longest time that is kept, in milliseconds.
pub const DAY_MS: u64 = 24 * 3_600_000;

/// An attempt that has ended in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// How long it took, in milliseconds.
    pub ran_ms: u64,
    /// Whether it failed or was lost.
    pub is_failure: bool,
    /// What it used.
    pub meter: Meter,
}

impl From<&Attempt> for Sample {
    fn from(attempt: &Attempt) -> Self {
        Self {
            ran_ms: attempt.ran_ms(),
            is_failure: is_failure(&attempt.outcome),
            meter: attempt.meter,
        }
    }
}

/// Returns whether an attempt with this outcome ([`crate::outcome::Outcome::as_str`]) has failed. A handler that asks for
/// another attempt has not.
pub fn is_failure(outcome: &str) -> bool {
    !matches!(outcome, "completed" | "cancelled" | "retry")
}

/// The distribution of values. The percentiles are at most an eighth above the exact ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// The median.
    pub p50: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The largest value.
    pub max: u64,
}

/// The cost of attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// How many attempts have ended.
    pub runs: u64,
    /// How many of them have failed.
    pub failures: u64,
    /// How long one took, in milliseconds.
    pub ran_ms: Spread,
    /// The fuel of one.
    pub fuel: Spread,
    /// The CPU time of one, in microseconds.
    pub cpu_us: Spread,
    /// The most linear memory of one, in bytes.
    pub peak_memory_bytes: Spread,
}

/// The cost of one revision of a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevisionCost {
    /// The component.
    pub component: String,
    /// Its revision.
    pub revision: u32,
    /// Over the last 55 to 60 minutes; `None` if no attempt has ended.
    pub last_hour: Option<Cost>,
    /// Over the last 23 to 24 hours.
    pub last_day: Cost,
}

/// The costs of all handlers.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    by_handler: BTreeMap<String, Vec<Revision>>,
    revisions: usize,
}

#[derive(Clone, Debug)]
struct Revision {
    component: String,
    number: u32,
    latest: Time,
    hour: Steps<300_000, 12>,
    day: Steps<3_600_000, 24>,
}

/// The newest `MAX` steps of `MS` milliseconds, by their number.
#[derive(Clone, Debug, Default)]
struct Steps<const MS: i64, const MAX: usize>(BTreeMap<i64, Step>);

#[derive(Clone, Debug, Default)]
struct Step {
    runs: u64,
    failures: u64,
    ran_ms: Histogram,
    fuel: Histogram,
    cpu_us: Histogram,
    peak_memory_bytes: Histogram,
}

impl Costs {
    /// Counts an attempt of a handler that ended at `at`.
    pub fn add(&mut self, handler: &str, revision: (&str, u32), at: Time, sample: Sample) {
        let (component, number) = revision;
        let is_it = |it: &Revision| it.number == number && it.component == component;
        let found = self.by_handler.get_mut(handler);
        if let Some(known) = found.and_then(|all| all.iter_mut().find(|it| is_it(it))) {
            return known.add(at, sample);
        }
        if self.revisions >= REVISIONS_MAX {
            self.forget_oldest();
        }
        let mut new = Revision {
            component: component.to_owned(),
            number,
            latest: at,
            hour: Steps::default(),
            day: Steps::default(),
        };
        new.add(at, sample);
        let all = self.by_handler.entry(handler.to_owned()).or_default();
        all.push(new);
        self.revisions += 1;
    }

    /// Returns the cost of a handler's revisions, the most recently used first.
    pub fn of(&self, handler: &str, now: Time) -> Vec<RevisionCost> {
        let mut revisions: Vec<&Revision> =
            self.by_handler.get(handler).into_iter().flatten().collect();
        revisions.sort_by_key(|it| Reverse((it.latest, it.number)));
        let cost = |revision: &&Revision| {
            Some(RevisionCost {
                component: revision.component.clone(),
                revision: revision.number,
                last_hour: revision.hour.sum(now),
                last_day: revision.day.sum(now)?,
            })
        };
        revisions.iter().filter_map(cost).collect()
    }

    fn forget_oldest(&mut self) {
        let all = self.by_handler.iter();
        let oldest = all
            .flat_map(|(handler, all)| all.iter().enumerate().map(move |it| (handler, it)))
            .min_by_key(|(_, (_, revision))| revision.latest)
            .map(|(handler, (index, _))| (handler.clone(), index));
        let Some((handler, index)) = oldest else {
            return;
        };
        if let Some(all) = self.by_handler.get_mut(&handler) {
            all.swap_remove(index);
            self.revisions -= 1;
            if all.is_empty() {
                self.by_handler.remove(&handler);
            }
        }
    }
}

impl Revision {
    fn add(&mut self, at: Time, sample: Sample) {
        self.latest = self.latest.max(at);
        self.hour.add(at, sample);
        self.day.add(at, sample);
    }
}

impl<const MS: i64, const MAX: usize> Steps<MS, MAX> {
    fn add(&mut self, at: Time, sample: Sample) {
        let step = self.0.entry(at.0.div_euclid(MS)).or_default();
        step.add(sample);
        while self.0.len() > MAX {
            self.0.pop_first();
        }
    }

    /// Returns the cost over the newest steps at `now`, `None` if no attempt has ended in them.
    fn sum(&self, now: Time) -> Option<Cost> {
        let older = i64::try_from(MAX).unwrap_or(i64::MAX) - 1;
        let first = now.0.div_euclid(MS).saturating_sub(older);
        let mut sum = Step::default();
        self.0.range(first..).for_each(|(_, step)| sum.merge(step));
        (sum.runs > 0).then(|| sum.cost())
    }
}

impl Step {
    fn add(&mut self, sample: Sample) {
        self.runs += 1;
        self.failures += u64::from(sample.is_failure);
        self.ran_ms.add(sample.ran_ms);
        self.fuel.add(sample.meter.fuel);
        self.cpu_us.add(sample.meter.cpu_us);
        self.peak_memory_bytes.add(sample.meter.peak_memory_bytes);
    }

    fn merge(&mut self, other: &Self) {
        self.runs += other.runs;
        self.failures += other.failures;
        self.ran_ms.merge(&other.ran_ms);
        self.fuel.merge(&other.fuel);
        self.cpu_us.merge(&other.cpu_us);
        self.peak_memory_bytes.merge(&other.peak_memory_bytes);
    }

    fn cost(&self) -> Cost {
        Cost {
            runs: self.runs,
            failures: self.failures,
            ran_ms: self.ran_ms.spread(),
            fuel: self.fuel.spread(),
            cpu_us: self.cpu_us.spread(),
            peak_memory_bytes: self.peak_memory_bytes.spread(),
        }
    }
}
