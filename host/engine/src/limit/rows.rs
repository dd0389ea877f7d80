//! What is particular about the rows of limits, and the rows of their keys.

use std::collections::BTreeSet;
use std::sync::Arc;

use host_core::id::JobId;
use host_core::job::LimitKey;
use host_core::time::Time;

use super::{KeptLimit, KeyUse, Limits};
use crate::StoreError;
use crate::table::TableRows;

/// What has become of a limit.
#[derive(Clone, Copy, Debug)]
pub enum LimitChange<'k> {
    Set(&'k KeptLimit),
    CursorMoved(&'k KeptLimit),
    Deleted,
}

/// What is particular about the rows of limits, and the rows of their keys.
pub trait LimitRows: TableRows {
    /// Keeps other hosts from changing limits and their keys until the batch ends. Everything else here but
    /// [`LimitRows::limits`] needs it.
    fn lock_limits(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
    /// Returns the limits, which each new job needs. Another host may have changed them in the meantime, unless they are
    /// locked.
    fn limits(&mut self) -> Result<Arc<Limits>, StoreError>;
    /// Notes that a limit was written, or deleted, for what is in memory; and for other hosts, unless only its cursor has
    /// moved.
    fn note_limit(&mut self, _number: u64, _limit: LimitChange<'_>) -> Result<(), StoreError> {
        Ok(())
    }
    /// Returns the limits that have a cursor or were removed, at most `limit`.
    fn changed_limits(&mut self, limit: usize) -> Result<Vec<KeptLimit>, StoreError> {
        let limits = self.limits()?;
        let changed = limits.0.values().filter(|kept| kept.has_changed());
        Ok(changed.take(limit).cloned().collect())
    }

    /// Reads keys that the batch needs, so that an engine can ask for all of them together.
    fn read_keys(&mut self, _keys: BTreeSet<LimitKey>) -> Result<(), StoreError> {
        Ok(())
    }
    /// Returns how much of a key is used.
    fn key_use(&mut self, key: &LimitKey) -> Result<KeyUse, StoreError>;
    /// Changes how much of a key is used and when it is due; `None` for a key that is the same as never used. It was read
    /// before.
    fn set_key_use(
        &mut self,
        key: &LimitKey,
        used: Option<(KeyUse, Option<Time>)>,
    ) -> Result<(), StoreError>;
    /// Returns the first job that waits for a key: the most urgent and then the oldest, without those that another host has
    /// locked.
    fn first_waiting(&mut self, key: &LimitKey) -> Result<Option<JobId>, StoreError>;
    /// Returns keys that are due, at most `limit`, the earliest first.
    fn due_keys(&mut self, now: Time, limit: usize) -> Result<Vec<LimitKey>, StoreError>;
    /// Returns the keys of a limit from one on, at most `limit`, in the order of their bytes.
    fn keys_from(
        &mut self,
        number: u64,
        from: &str,
        limit: usize,
    ) -> Result<Vec<LimitKey>, StoreError>;
    /// Lets a job be claimed after all of its priority that are available.
    fn take_new_rank(&mut self, job: JobId) -> Result<(), StoreError>;

    /// Lists a job that runs with a key since then, or no longer.
    fn list_running(
        &mut self,
        key: &LimitKey,
        since: Time,
        job: JobId,
        is_listed: bool,
    ) -> Result<(), StoreError>;
    /// Returns the jobs that are listed under a key, the oldest first, at most `limit`; `None` for each that another host has
    /// locked.
    fn listed_running(
        &mut self,
        key: &LimitKey,
        limit: usize,
    ) -> Result<Vec<Option<JobId>>, StoreError>;
}
