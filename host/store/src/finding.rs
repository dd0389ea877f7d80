//! The findings of a check of a store.

use std::collections::{BTreeMap, BTreeSet};

use host_core::id::{BatchId, JobId};
use host_core::job::{KeyOfJob, Lifecycle, LimitKey, State};
use host_core::time::Time;
use host_engine::StoreError;
use host_engine::audit::{Chain, Entry};
use host_engine::batch::{BatchCounts, JobBatch};
use host_engine::limit::Limits;
use host_engine::limit::tables::KeptKey;

use crate::judge::{judge, name};
use crate::parts::{PARTS, Row};

/// The maximum number of findings in one check. A store with more cannot be repaired row by row.
pub(crate) const FINDINGS_MAX: usize = 1_000;

/// One problem that a check has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it concerns: the store, a job or a queue.
    pub what: String,
    /// What is wrong.
    pub message: String,
}

/// The findings of one check.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) found: Vec<Finding>,
    /// What the jobs that were checked take of limits.
    pub(crate) tally: Tally,
}

impl Findings {
    /// Adds what is wrong with the next entry of the audit.
    pub(crate) fn entry(&mut self, chain: &mut Chain, entry: Entry) {
        let number = entry.number;
        if let Some(flaw) = chain.follow(entry) {
            self.add(format!("entry {number} of the audit"), flaw);
        }
    }

    /// Adds what is wrong with an audit of which all entries were seen.
    pub(crate) fn end_of(&mut self, chain: &Chain) {
        if let Some((number, flaw)) = chain.flaw_at_start() {
            self.add(format!("entry {number} of the audit"), flaw);
        }
    }

    /// Adds a record that cannot be read.
    pub(crate) fn record(&mut self, part: usize, row: &Row) {
        if let Err(flaw) = judge(part, row) {
            let (kind, id) = name(part, row);
            self.add(format!("{kind} {id}"), flaw);
        }
    }

    /// Returns what was read, `None` if a record cannot be read.
    pub(crate) fn readable<T>(
        &mut self,
        read: Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match read {
            Err(StoreError::Unreadable { what, message }) => {
                self.add_once(what, message);
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    /// Adds what cannot be read, unless it was found already.
    pub(crate) fn add_once(&mut self, what: String, message: String) {
        if self.found.iter().all(|found| found.what != what) {
            self.add(what, message);
        }
    }

    pub(crate) fn add(&mut self, what: impl Into<String>, message: impl Into<String>) {
        if self.found.len() < FINDINGS_MAX {
            let (what, message) = (what.into(), message.into());
            self.found.push(Finding { what, message });
        }
    }
}

/// Returns whether the records of a part are compared with their columns, which reads them too.
pub(crate) fn is_compared(part: usize) -> bool {
    matches!(
        PARTS[part].name,
        "jobs that have not ended" | "jobs that have ended" | "attempts"
    )
}

/// Says that a record cannot be read.
pub(crate) fn unreadable(error: StoreError) -> String {
    format!("its record cannot be read: {}", error.flaw())
}

/// What was counted of jobs.
#[derive(Default)]
pub(crate) struct Tally {
    /// How many places of each key of a limit they take, how many wait for it, and how many units the available ones have;
    /// and how many run and are being cancelled.
    pub(crate) keys: BTreeMap<LimitKey, [u64; 5]>,
    /// The jobs that must be listed as running with a key, and since when.
    pub(crate) listed: BTreeMap<(LimitKey, JobId), Time>,
    pub(crate) batches: BTreeMap<BatchId, BatchCounts>,
}

impl Tally {
    pub(crate) fn add(&mut self, job: &Lifecycle) {
        if let Some(batch) = job.batch {
            let counts = self.batches.entry(batch).or_default();
            counts.jobs += 1;
            match job.state {
                State::Completed => counts.completed += 1,
                State::Discarded => counts.discarded += 1,
                State::Cancelled => counts.cancelled += 1,
                _ => {}
            }
        }
        if job.has_places() {
            let is_running = job.state == State::Running;
            for KeyOfJob {
                key,
                units,
                is_listed,
            } in &job.limits.keys
            {
                let of_key = self.keys.entry(key.clone()).or_default();
                of_key[usize::from(is_running)] += 1;
                of_key[3] += if is_running { 0 } else { u64::from(*units) };
                if *is_listed && job.cancel.is_some() {
                    of_key[4] += 1;
                } else if *is_listed {
                    let since = job.lease.as_ref().map(|lease| lease.granted_at);
                    self.listed
                        .insert((key.clone(), job.id), since.unwrap_or_default());
                }
            }
        }
        if let Some(key) = job.waits_for_key() {
            self.keys.entry(key.clone()).or_default()[2] += 1;
        }
    }
}

impl Findings {
    /// Compares what is kept of the keys of limits with the jobs that were counted. Places of removed limits do not count.
    pub(crate) fn compare_keys(&mut self, limits: &Limits, kept: Vec<KeptKey>) {
        let mut found = std::mem::take(&mut self.tally.keys);
        let kept: Vec<_> = kept
            .into_iter()
            .map(|KeptKey { key, used, .. }| {
                let kept = [
                    used.reserved.into(),
                    used.running.into(),
                    used.waiting,
                    used.reserved_units,
                    used.cancelling.into(),
                ];
                let there = found.remove(&key).unwrap_or_default();
                (key, kept, there)
            })
            .collect();
        let rest = found.into_iter().map(|(key, there)| (key, [0; 5], there));
        for (key, kept, there) in kept.into_iter().chain(rest) {
            let names = [
                "available jobs",
                "running jobs",
                "jobs that wait",
                "units of available jobs",
                "running jobs that are cancelled",
            ];
            let counted = names.iter().zip(kept.iter().zip(there)).enumerate();
            let is_limited = limits.get(key.limit).is_some();
            for (n, (name, (kept, there))) in counted {
                if *kept != there && (is_limited || n == 2) {
                    self.add(
                        format!("the key {:?} of limit {}", key.key, key.limit),
                        format!("its number of {name} is {kept}, but there are {there}"),
                    );
                }
            }
        }
    }

    /// Compares the jobs that are listed as running with keys with those that were counted.
    pub(crate) fn compare_listed(&mut self, listed: Vec<(LimitKey, JobId)>) {
        let listed: BTreeSet<_> = listed.into_iter().collect();
        let counted: BTreeSet<_> = std::mem::take(&mut self.tally.listed).into_keys().collect();
        for (key, job) in listed.symmetric_difference(&counted) {
            self.add(
                format!("the key {:?} of limit {}", key.key, key.limit),
                format!("its list of running jobs is wrong about job {job}"),
            );
        }
    }

    /// Compares the numbers of batches with the jobs that were counted. Jobs that were deleted stay in the numbers.
    pub(crate) fn compare_batches(&mut self, kept: Vec<JobBatch>) {
        for JobBatch { id, progress, .. } in kept {
            let there = self.tally.batches.remove(&id).unwrap_or_default();
            let kept = progress.counts;
            let ended = [
                (kept.completed, there.completed),
                (kept.discarded, there.discarded),
                (kept.cancelled, there.cancelled),
            ];
            if kept.not_ended() != there.not_ended() || ended.iter().any(|(kept, it)| kept < it) {
                self.add(
                    format!("batch {id}"),
                    format!("its numbers are {kept:?}, but its jobs have {there:?}"),
                );
            }
        }
    }
}
