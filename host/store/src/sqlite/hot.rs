//! A cache of jobs for the writer. A job that changes in the open batch is written once at the end,
//! however often it changes. A job that will soon change again need not be read again. Only the one
//! writer may own the cache. It contains no SQL.

use std::collections::HashMap;

use host_core::id::JobId;
use host_core::job::{Lifecycle, Payload};

/// How many jobs stay in the cache between batches.
const JOBS_MAX: usize = 8_192;

/// The largest params that are cached with a job until it is claimed, in bytes.
const PARAMS_BYTES_MAX: usize = 1_024;

/// One cached job.
pub(super) struct Entry {
    pub(super) seq: i64,
    /// Its place in the order of claims, behind its priority.
    pub(super) rank: i64,
    pub(super) job: Lifecycle,
    /// Whether the job has a row.
    pub(super) stored: bool,
    dirty: bool,
    payload: Option<Payload>,
}

/// All cached jobs.
#[derive(Default)]
pub(super) struct Hot {
    jobs: HashMap<JobId, Entry>,
    /// The jobs whose rows must be written, in the order of their first change.
    dirty: Vec<JobId>,
    /// The jobs used in the open batch.
    met: Vec<JobId>,
}

impl Hot {
    pub(super) fn get(&self, id: JobId) -> Option<&Entry> {
        self.jobs.get(&id)
    }

    /// Adds a job that was read from its row.
    pub(super) fn load(&mut self, seq: i64, rank: i64, job: Lifecycle) {
        self.met.push(job.id);
        let entry = Entry {
            seq,
            rank,
            stored: true,
            dirty: false,
            payload: None,
            job,
        };
        self.jobs.insert(entry.job.id, entry);
    }

    /// Adds a new job, which has no row yet.
    pub(super) fn insert(&mut self, seq: i64, job: Lifecycle, payload: &Payload) {
        let kept = payload.params.as_str().len() <= PARAMS_BYTES_MAX
            && payload.trace_context.is_empty()
            && payload.attributes.is_empty();
        self.met.push(job.id);
        self.dirty.push(job.id);
        let entry = Entry {
            seq,
            rank: seq,
            stored: false,
            dirty: true,
            payload: kept.then(|| payload.clone()),
            job,
        };
        self.jobs.insert(entry.job.id, entry);
    }

    /// Gives a job in the cache another rank. Its row follows with its next change.
    pub(super) fn set_rank(&mut self, id: JobId, rank: i64) {
        if let Some(entry) = self.jobs.get_mut(&id) {
            entry.rank = rank;
        }
    }

    /// Replaces a job by its new version. Returns whether it is in the cache.
    pub(super) fn change(&mut self, after: &Lifecycle) -> bool {
        let Some(entry) = self.jobs.get_mut(&after.id) else {
            return false;
        };
        entry.job.clone_from(after);
        if !entry.dirty {
            entry.dirty = true;
            self.dirty.push(after.id);
            self.met.push(after.id);
        }
        true
    }

    /// Removes and returns a job's payload if it is in the cache.
    pub(super) fn take_payload(&mut self, id: JobId) -> Option<Payload> {
        self.jobs.get_mut(&id)?.payload.take()
    }

    /// Returns whether a job has a row.
    pub(super) fn is_stored(&self, id: JobId) -> bool {
        self.jobs.get(&id).is_none_or(|entry| entry.stored)
    }

    /// Returns whether a job has changes that are not in its row.
    pub(super) fn is_dirty(&self, id: JobId) -> bool {
        self.jobs.get(&id).is_some_and(|entry| entry.dirty)
    }

    /// Returns the jobs with changes that are not in their rows.
    pub(super) fn dirty(&self) -> impl Iterator<Item = &Entry> {
        self.dirty.iter().filter_map(|id| self.jobs.get(id))
    }

    /// Calls `write` for each job with changes that are not in its row. The job then counts as
    /// written.
    pub(super) fn write<E>(
        &mut self,
        mut write: impl FnMut(&Entry) -> Result<(), E>,
    ) -> Result<(), E> {
        for id in std::mem::take(&mut self.dirty) {
            if let Some(entry) = self.jobs.get_mut(&id) {
                write(entry)?;
                entry.dirty = false;
                entry.stored = true;
            }
        }
        Ok(())
    }

    /// Removes a job that was deleted.
    pub(super) fn remove(&mut self, id: JobId) {
        self.jobs.remove(&id);
    }

    /// Removes jobs that are unlikely to change again. Call it when the batch is committed.
    pub(super) fn settle(&mut self) {
        if self.jobs.len() > JOBS_MAX {
            self.clear();
        }
        for id in self.met.drain(..) {
            let ended = |entry: &Entry| entry.job.state.is_terminal();
            if self.jobs.get(&id).is_some_and(ended) {
                self.jobs.remove(&id);
            }
        }
    }

    /// Removes everything, so that all jobs are read from their rows again.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
