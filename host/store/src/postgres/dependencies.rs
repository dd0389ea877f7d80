//! Which jobs wait for which, in one batch: what is known of the rows, and what has changed. It contains no SQL.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use host_core::id::JobId;
use uuid::Uuid;

/// A prerequisite with a job that waits for it.
pub(super) type Pair = (JobId, JobId);

/// The dependencies of one batch.
#[derive(Default)]
pub(super) struct Dependencies {
    /// All jobs that wait for a job, by their place in the order.
    known: HashMap<JobId, BTreeMap<i64, JobId>>,
    /// The prerequisites in `known` of a job.
    of: HashMap<JobId, BTreeSet<JobId>>,
    /// New ones by the job that waits, with its place.
    added: BTreeMap<JobId, (i64, BTreeSet<JobId>)>,
    removed: Vec<(Uuid, i64)>,
    /// Jobs that wait for no others any more.
    cleared: Vec<Uuid>,
    /// Jobs all of whose dependents are settled.
    ended: Vec<Uuid>,
}

/// What the rows do not have yet.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) cleared: Vec<Uuid>,
    pub(super) removed: Vec<(Uuid, i64)>,
    /// A prerequisite, a job that waits for it and the place of that job.
    pub(super) added: Vec<(Uuid, Uuid, i64)>,
    pub(super) ended: Vec<Uuid>,
}

impl Dependencies {
    /// Returns the jobs that wait for a job if all of them are known.
    pub(super) fn on(&self, prerequisite: JobId) -> Option<impl Iterator<Item = JobId>> {
        Some(self.known.get(&prerequisite)?.values().copied())
    }

    /// Records all jobs that wait for a job.
    pub(super) fn know(&mut self, prerequisite: JobId, waiting: BTreeMap<i64, JobId>) {
        for job in waiting.values() {
            self.of.entry(*job).or_default().insert(prerequisite);
        }
        self.known.insert(prerequisite, waiting);
    }

    /// Makes a job wait for others.
    pub(super) fn add(&mut self, job: JobId, seq: i64, prerequisites: &[JobId]) {
        for prerequisite in prerequisites {
            if let Some(waiting) = self.known.get_mut(prerequisite) {
                waiting.insert(seq, job);
                self.of.entry(job).or_default().insert(*prerequisite);
            }
        }
        let added = self.added.entry(job).or_default();
        added.0 = seq;
        added.1.extend(prerequisites);
    }

    /// Makes a job wait for no others.
    pub(super) fn clear(&mut self, job: JobId, seq: i64) {
        self.added.remove(&job);
        for prerequisite in self.of.remove(&job).unwrap_or_default() {
            if let Some(waiting) = self.known.get_mut(&prerequisite) {
                waiting.remove(&seq);
            }
        }
        self.cleared.push(job.0);
    }

    pub(super) fn remove(&mut self, (prerequisite, job): Pair, seq: i64) {
        if let Some(waiting) = self.known.get_mut(&prerequisite) {
            waiting.remove(&seq);
        }
        let added = self.added.get_mut(&job);
        if !added.is_some_and(|(_, added)| added.remove(&prerequisite)) {
            self.removed.push((prerequisite.0, seq));
        }
    }

    pub(super) fn end_cascade(&mut self, prerequisite: JobId) {
        self.ended.push(prerequisite.0);
    }

    pub(super) fn take_changes(&mut self) -> Changes {
        let added = std::mem::take(&mut self.added).into_iter();
        let rows = |(job, (seq, prerequisites)): (JobId, (i64, BTreeSet<JobId>))| {
            let rows = prerequisites.into_iter();
            rows.map(move |prerequisite| (prerequisite.0, job.0, seq))
        };
        Changes {
            cleared: std::mem::take(&mut self.cleared),
            removed: std::mem::take(&mut self.removed),
            added: added.flat_map(rows).collect(),
            ended: std::mem::take(&mut self.ended),
        }
    }
}
