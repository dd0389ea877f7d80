//! The rows that a batch has read or changed. A job that changes in the batch is written once at the
//! end, however often it changes. It contains no SQL, and forgets everything with the batch.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use host_core::id::{JobId, NodeId};
use host_core::job::{Lifecycle, Payload, State};
use host_core::json::JsonText;
use host_core::name::Name;
use host_core::time::Time;

use super::dependencies::Dependencies;
use super::limits::HeldLimits;
use super::state::HeldState;
use super::tables::HeldRows;

/// The table of a job's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    Live,
    Ended,
}

impl Table {
    pub(super) fn of(state: State) -> Self {
        if state.is_terminal() {
            Self::Ended
        } else {
            Self::Live
        }
    }
}

/// One job.
pub(super) struct Entry {
    pub(super) seq: i64,
    /// Its place in the order of claims, behind its priority.
    pub(super) rank: i64,
    pub(super) job: Lifecycle,
    /// The state in the job's row; `None` if it has no row.
    pub(super) stored: Option<State>,
    dirty: bool,
}

/// The payload of a job.
pub(super) struct New {
    pub(super) payload: Payload,
    pub(super) unique_key: Option<String>,
    pub(super) depends_on: Vec<JobId>,
}

/// An attempt to write.
pub(super) struct AttemptRow {
    pub(super) number: u32,
    pub(super) body: Vec<u8>,
    pub(super) progress: Option<Vec<u8>>,
    pub(super) result: Option<JsonText>,
}

/// The holder of a unique key. `None` if it is free.
pub(super) struct KeyHolder {
    pub(super) job: Option<JobId>,
    pub(super) is_new: bool,
}

/// A queue and a key in it.
pub(super) type Key = (Name, String);

/// The rows of one batch.
#[derive(Default)]
pub(super) struct Overlay {
    jobs: HashMap<JobId, Entry>,
    /// The jobs whose rows must be written, in the order of their first change.
    dirty: Vec<JobId>,
    /// Jobs that do not exist, or were deleted by this batch.
    absent: HashSet<JobId>,
    /// Jobs that are locked, but cannot be read, each with the reason.
    pub(super) unreadable: HashMap<JobId, String>,
    /// The payloads of jobs that are new in this batch.
    pub(super) new: HashMap<JobId, New>,
    /// Payloads that came with a claim.
    pub(super) claimed: HashMap<JobId, Payload>,
    keys: BTreeMap<Key, KeyHolder>,
    /// The keys that jobs have held in this batch.
    holds: HashMap<JobId, Vec<Key>>,
    /// Those of the components that new jobs name which are deployed; `None` if the batch may change them.
    pub(super) components: Option<BTreeSet<Name>>,
    pub(super) dependencies: Dependencies,
    pub(super) state: HeldState,
    pub(super) limits: HeldLimits,
    pub(super) tables: HeldRows,
    // Write-only rows.
    /// The new jobs whose payloads have no row.
    pub(super) payloads: Vec<JobId>,
    pub(super) attempts: BTreeMap<JobId, Vec<AttemptRow>>,
    /// The lowest numbers of attempts to keep.
    pub(super) forgotten_attempts: BTreeMap<JobId, u32>,
    pub(super) failures: BTreeMap<JobId, (u32, Vec<u8>)>,
    /// Effects for other nodes.
    pub(super) mail: Vec<Mail>,
    /// By how much the number of jobs of principals has changed, and what it was if it was read.
    pub(super) owned: BTreeMap<String, i64>,
    pub(super) owned_before: BTreeMap<String, i64>,
    /// Entries of the audit: their times and records.
    pub(super) audit: Vec<(Time, String)>,
    /// Jobs to remove with all of their data.
    pub(super) deleted: Vec<(JobId, Table)>,
}

/// An effect for a node, or for all that live except it.
#[derive(Debug)]
pub(super) struct Mail {
    pub(super) node: NodeId,
    pub(super) is_for_others: bool,
    pub(super) job: JobId,
    pub(super) body: Vec<u8>,
}

/// How to write the row of a changed job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Write {
    /// The table that has the row.
    pub(super) from: Option<Table>,
    pub(super) to: Table,
}

impl Overlay {
    pub(super) fn get(&self, id: JobId) -> Option<&Entry> {
        self.jobs.get(&id)
    }

    pub(super) fn is_absent(&self, id: JobId) -> bool {
        self.absent.contains(&id)
    }

    pub(super) fn note_absent(&mut self, id: JobId) {
        self.absent.insert(id);
    }

    /// Adds a job from its row, unless the batch has it already.
    pub(super) fn load(&mut self, seq: i64, rank: i64, job: Lifecycle) {
        if self.absent.contains(&job.id) {
            return;
        }
        self.jobs.entry(job.id).or_insert_with(|| Entry {
            seq,
            rank,
            stored: Some(job.state),
            dirty: false,
            job,
        });
    }

    /// Adds a new job.
    pub(super) fn insert(&mut self, seq: i64, job: Lifecycle, new: New) {
        let id = job.id;
        self.absent.remove(&id);
        self.dirty.push(id);
        self.payloads.push(id);
        self.new.insert(id, new);
        let entry = Entry {
            seq,
            rank: seq,
            stored: None,
            dirty: true,
            job,
        };
        self.jobs.insert(id, entry);
    }

    /// Returns the jobs that the batch has read or changed.
    pub(super) fn jobs(&self) -> impl Iterator<Item = &Entry> {
        self.jobs.values()
    }

    /// Gives a job another rank. Its row follows with its next change.
    pub(super) fn set_rank(&mut self, id: JobId, rank: i64) {
        if let Some(entry) = self.jobs.get_mut(&id) {
            entry.rank = rank;
        }
    }

    /// Replaces a job by its new version. Returns whether the batch has the job.
    pub(super) fn change(&mut self, after: &Lifecycle) -> bool {
        let Some(entry) = self.jobs.get_mut(&after.id) else {
            return false;
        };
        entry.job.clone_from(after);
        if !entry.dirty {
            entry.dirty = true;
            self.dirty.push(after.id);
        }
        true
    }

    /// Removes a job and everything of it that this batch was going to write.
    pub(super) fn delete(&mut self, id: JobId) {
        let Some(entry) = self.jobs.remove(&id) else {
            return;
        };
        self.absent.insert(id);
        if let Some(stored) = entry.stored {
            self.deleted.push((id, Table::of(stored)));
        }
        if self.new.remove(&id).is_some() {
            self.payloads.retain(|job| *job != id);
        }
        self.attempts.remove(&id);
        self.failures.remove(&id);
        self.dependencies.clear(id, entry.seq);
        for key in self.holds.remove(&id).unwrap_or_default() {
            if let Some(held) = self.keys.get_mut(&key).filter(|held| held.job == Some(id)) {
                *held = KeyHolder {
                    job: None,
                    is_new: true,
                };
            }
        }
    }

    pub(super) fn key(&self, key: &Key) -> Option<&KeyHolder> {
        self.keys.get(key)
    }

    /// Records who holds a key.
    pub(super) fn hold(&mut self, key: Key, held: KeyHolder) {
        if let Some(job) = held.job {
            self.holds.entry(job).or_default().push(key.clone());
        }
        self.keys.insert(key, held);
    }

    pub(super) fn keys(&mut self) -> impl Iterator<Item = (&Key, &mut KeyHolder)> {
        self.keys.iter_mut()
    }

    pub(super) fn was_deleted(&self, id: JobId) -> bool {
        self.absent.contains(&id)
    }

    /// Returns the jobs with changes that are not in their rows.
    pub(super) fn dirty(&self) -> impl Iterator<Item = &Entry> {
        let entries = self.dirty.iter().filter_map(|id| self.jobs.get(id));
        entries.filter(|entry| entry.dirty)
    }

    pub(super) fn is_dirty(&self, id: JobId) -> bool {
        self.jobs.get(&id).is_some_and(|entry| entry.dirty)
    }

    /// Calls `write` for each job with changes that are not in its row. The job then counts as
    /// written.
    pub(super) fn write<E>(
        &mut self,
        mut write: impl FnMut(&Entry, Write) -> Result<(), E>,
    ) -> Result<(), E> {
        for id in std::mem::take(&mut self.dirty) {
            if let Some(entry) = self.jobs.get_mut(&id).filter(|entry| entry.dirty) {
                let from = entry.stored.map(Table::of);
                let to = Table::of(entry.job.state);
                write(entry, Write { from, to })?;
                entry.dirty = false;
                entry.stored = Some(entry.job.state);
            }
        }
        self.limits.keys.jobs_are_written();
        Ok(())
    }
}
