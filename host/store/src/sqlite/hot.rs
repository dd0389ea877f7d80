//! The jobs the writer has in hand: those that changed in the open batch, written once at its end
//! however often they moved, and those that will move soon, which need not be read again.
//! Only the one writer may hold this; it knows no SQL.

use std::collections::HashMap;

use host_core::id::JobId;
use host_core::job::{Lifecycle, Payload};

/// How many jobs are kept between batches.
const JOBS_MAX: usize = 8_192;

/// The largest params that are kept with a job until it is claimed, in bytes.
const PARAMS_BYTES_MAX: usize = 1_024;

/// One job in hand.
pub(super) struct Entry {
    pub(super) seq: i64,
    pub(super) job: Lifecycle,
    /// Whether it has a row.
    pub(super) stored: bool,
    dirty: bool,
    payload: Option<Payload>,
}

/// All jobs in hand.
#[derive(Default)]
pub(super) struct Hot {
    jobs: HashMap<JobId, Entry>,
    /// Those whose rows must be written, in the order of their first change.
    dirty: Vec<JobId>,
    /// Those met in the open batch.
    met: Vec<JobId>,
}

impl Hot {
    pub(super) fn get(&self, id: JobId) -> Option<&Entry> {
        self.jobs.get(&id)
    }

    /// Takes a job from its row.
    pub(super) fn load(&mut self, seq: i64, job: Lifecycle) {
        self.met.push(job.id);
        let entry = Entry {
            seq,
            stored: true,
            dirty: false,
            payload: None,
            job,
        };
        self.jobs.insert(entry.job.id, entry);
    }

    /// Takes a new job, which has no row yet.
    pub(super) fn insert(&mut self, seq: i64, job: Lifecycle, payload: &Payload) {
        let kept = payload.params.as_str().len() <= PARAMS_BYTES_MAX
            && payload.trace_context.is_empty()
            && payload.attributes.is_empty();
        self.met.push(job.id);
        self.dirty.push(job.id);
        let entry = Entry {
            seq,
            stored: false,
            dirty: true,
            payload: kept.then(|| payload.clone()),
            job,
        };
        self.jobs.insert(entry.job.id, entry);
    }

    /// Takes the new version of a job; tells its place if it is in hand.
    pub(super) fn change(&mut self, after: &Lifecycle) -> Option<i64> {
        let entry = self.jobs.get_mut(&after.id)?;
        entry.job.clone_from(after);
        if !entry.dirty {
            entry.dirty = true;
            self.dirty.push(after.id);
            self.met.push(after.id);
        }
        Some(entry.seq)
    }

    /// Returns a job's payload if it is still in hand, once.
    pub(super) fn take_payload(&mut self, id: JobId) -> Option<Payload> {
        self.jobs.get_mut(&id)?.payload.take()
    }

    /// Tells whether a job's row is behind.
    pub(super) fn is_dirty(&self, id: JobId) -> bool {
        self.jobs.get(&id).is_some_and(|entry| entry.dirty)
    }

    /// Returns the jobs whose rows are behind.
    pub(super) fn dirty(&self) -> impl Iterator<Item = &Entry> {
        self.dirty.iter().filter_map(|id| self.jobs.get(id))
    }

    /// Hands over each job whose row is behind, which then counts as written.
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

    /// Drops a job that is no more.
    pub(super) fn remove(&mut self, id: JobId) {
        self.jobs.remove(&id);
    }

    /// Drops what will hardly move again; the batch is committed.
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

    /// Drops everything: the rows are what counts again.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
