//! The keys of limits that a batch has read or changed, and the first jobs that wait for each. It contains no
//! statements. Only a store with one writer may keep it for the next batch.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use host_core::id::JobId;
use host_core::job::{Lifecycle, LimitKey};
use host_core::time::Time;
use host_engine::limit::KeyUse;

/// How many keys stay in memory between batches.
const KEYS_MAX: usize = 16_384;

/// The place of a job among those that wait: its priority and its number.
pub(crate) type WaitingPlace = (u8, i64);

#[derive(Default)]
pub(crate) struct HeldKeys {
    uses: BTreeMap<LimitKey, HeldUse>,
    /// The keys that were set since the last write.
    changed: BTreeSet<LimitKey>,
    /// Jobs that wait for a key and whose rows may not show it.
    in_hand: BTreeMap<LimitKey, BTreeMap<WaitingPlace, JobId>>,
    stored: BTreeMap<LimitKey, StoredWaiters>,
}

struct HeldUse {
    now: KeyState,
    /// What its row says, if it has one.
    row: Option<KeyState>,
}

/// How much of a key is used, and when it is due.
pub(crate) type KeyState = (KeyUse, Option<Time>);

/// The columns of [`KeyState`] in every engine, in this order.
macro_rules! key_columns {
    () => {
        "reserved, running, waiting, refilled_at_ns, wake_at, reserved_units, next_units, cancelling, to_cancel, \
         held_until"
    };
}
pub(crate) use key_columns;

/// The next jobs whose rows show that they wait for a key.
struct StoredWaiters {
    jobs: VecDeque<(WaitingPlace, JobId)>,
    /// The place of the last that was read.
    last: WaitingPlace,
    /// How often some were read.
    reads: u32,
    is_all: bool,
}

/// Who is the first that waits for a key.
pub(crate) enum First {
    Job(Option<JobId>),
    /// It must be read from the rows after this place, where some were read so often.
    After(WaitingPlace, u32),
}

/// What to do with the row of a key.
pub(crate) struct KeyRow {
    pub(crate) key: LimitKey,
    /// What it says, if it exists.
    pub(crate) before: Option<KeyState>,
    /// What it must say; `None` if it must go.
    pub(crate) after: Option<KeyState>,
}

impl HeldKeys {
    pub(crate) fn key_use(&self, key: &LimitKey) -> Option<KeyUse> {
        self.uses.get(key).map(|held| held.now.0)
    }

    /// Adds a key that was read: what its row says, if it has one.
    pub(crate) fn load(&mut self, key: LimitKey, row: Option<KeyState>) {
        let now = row.unwrap_or_default();
        self.uses.entry(key).or_insert(HeldUse { now, row });
    }

    /// Changes a key that was read.
    pub(crate) fn set(&mut self, key: &LimitKey, used: Option<KeyState>) {
        if let Some(held) = self.uses.get_mut(key) {
            held.now = used.unwrap_or_default();
            self.changed.insert(key.clone());
        }
    }

    /// Records that a job at this number in the order has changed.
    pub(crate) fn note(&mut self, seq: i64, before: Option<&Lifecycle>, after: Option<&Lifecycle>) {
        let waits = |job: Option<&Lifecycle>| {
            let job = job?;
            let key = job.waits_for_key()?.clone();
            Some((key, (job.priority, seq), job.id))
        };
        if let Some((key, place, _)) = waits(before)
            && let Some(waiting) = self.in_hand.get_mut(&key)
        {
            waiting.remove(&place);
        }
        if let Some((key, place, id)) = waits(after) {
            self.in_hand.entry(key).or_default().insert(place, id);
        }
    }

    /// Returns the first job that waits for a key. Rows of jobs that `is_dirty` are out of date.
    pub(crate) fn first(&mut self, key: &LimitKey, is_dirty: impl Fn(JobId) -> bool) -> First {
        let in_hand = self
            .in_hand
            .get(key)
            .and_then(BTreeMap::first_key_value)
            .map(|(place, id)| (*place, *id));
        let has_rows = self.has_rows_of_jobs(key);
        let stored = match self.stored.get_mut(key) {
            Some(stored) => {
                while stored.jobs.front().is_some_and(|(_, id)| is_dirty(*id)) {
                    stored.jobs.pop_front();
                }
                if stored.jobs.is_empty() && !stored.is_all {
                    return First::After(stored.last, stored.reads);
                }
                stored.jobs.front().copied()
            }
            None if has_rows => return First::After((0, 0), 0),
            None => None,
        };
        let first = in_hand.into_iter().chain(stored).min();
        First::Job(first.map(|(_, id)| id))
    }

    /// Returns whether rows of jobs may show that they wait for a key. Its row is written after theirs.
    fn has_rows_of_jobs(&self, key: &LimitKey) -> bool {
        let waits = |held: &HeldUse| held.row.is_some_and(|(used, _)| used.waiting > 0);
        self.uses.get(key).is_none_or(waits)
    }

    /// Adds the next jobs that wait for a key according to the rows, in their order, and whether these are all.
    pub(crate) fn add_stored(
        &mut self,
        key: &LimitKey,
        jobs: VecDeque<(WaitingPlace, JobId)>,
        is_all: bool,
    ) {
        let last = jobs.back().map(|(place, _)| *place).unwrap_or_default();
        let reads = self.stored.get(key).map_or(0, |before| before.reads) + 1;
        let stored = StoredWaiters {
            jobs,
            last,
            reads,
            is_all,
        };
        self.stored.insert(key.clone(), stored);
    }

    /// Returns whether rows of jobs that wait for a key are still to be read.
    pub(crate) fn is_unread(&self, key: &LimitKey) -> bool {
        self.has_rows_of_jobs(key) && !self.stored.contains_key(key)
    }

    /// Takes the rows that must be written. They then count as written.
    pub(crate) fn take_changed(&mut self) -> impl Iterator<Item = KeyRow> {
        let uses = &mut self.uses;
        std::mem::take(&mut self.changed)
            .into_iter()
            .filter_map(|key| {
                let held = uses.get_mut(&key)?;
                let after = (held.now.0 != KeyUse::default()).then_some(held.now);
                let before = std::mem::replace(&mut held.row, after);
                (before != after).then_some(KeyRow { key, before, after })
            })
    }

    /// Records that the rows of jobs are up to date.
    pub(crate) fn jobs_are_written(&mut self) {
        self.in_hand.clear();
        self.stored.clear();
    }

    /// Keeps keys for the next batch, unless they are too many. Call it when the batch is committed.
    pub(crate) fn settle(&mut self) {
        self.jobs_are_written();
        if self.uses.len() > KEYS_MAX {
            self.clear();
        }
    }

    /// Removes everything, so that all keys are read from their rows again.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}
