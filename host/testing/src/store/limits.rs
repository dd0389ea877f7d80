//! Limits of a store in memory.

use std::sync::Arc;

use host_core::id::JobId;
use host_core::job::LimitKey;
use host_core::time::Time;
use host_engine::StoreError;
use host_engine::limit::tables::KeptKey;
use host_engine::limit::{AT_ONCE, KeptLimit, KeyUse, LimitRows, Limits};
use host_engine::table::{Range, TableRows as _};

use super::Model;

impl LimitRows for Model {
    fn limits(&mut self) -> Result<Arc<Limits>, StoreError> {
        let kept: Vec<KeptLimit> = self.list(Range::all())?;
        Ok(Arc::new(kept.into_iter().collect()))
    }

    fn key_use(&mut self, key: &LimitKey) -> Result<KeyUse, StoreError> {
        let kept: Option<KeptKey> = self.get(key)?;
        Ok(kept.map(|it| it.used).unwrap_or_default())
    }

    fn set_key_use(
        &mut self,
        key: &LimitKey,
        used: Option<(KeyUse, Option<Time>)>,
    ) -> Result<(), StoreError> {
        let Some((used, wake_at)) = used else {
            return self.remove::<KeptKey>(key);
        };
        let key = key.clone();
        self.put(&KeptKey { key, used, wake_at })
    }

    fn first_waiting(&mut self, key: &LimitKey) -> Result<Option<JobId>, StoreError> {
        let waiting = self
            .entries()
            .filter(|entry| entry.lifecycle.waits_for_key() == Some(key));
        let first = waiting.min_by_key(|entry| (entry.lifecycle.priority, entry.seq));
        Ok(first.map(|entry| entry.lifecycle.id))
    }

    fn due_keys(&mut self, now: Time, limit: usize) -> Result<Vec<LimitKey>, StoreError> {
        let due: Vec<KeptKey> = self.list(Range::all().due(now))?;
        Ok(due.into_iter().take(limit).map(|it| it.key).collect())
    }

    fn keys_from(
        &mut self,
        number: u64,
        from: &str,
        limit: usize,
    ) -> Result<Vec<LimitKey>, StoreError> {
        let range = Range::of([number.into()]).from(from);
        let keys: Vec<KeptKey> = self.list(range)?;
        Ok(keys.into_iter().take(limit).map(|it| it.key).collect())
    }

    fn take_new_rank(&mut self, job: JobId) -> Result<(), StoreError> {
        let rank = self.next_seq;
        self.next_seq += 1;
        self.entry(job)?.rank = rank;
        Ok(())
    }

    fn list_running(
        &mut self,
        key: &LimitKey,
        since: Time,
        job: JobId,
        is_listed: bool,
    ) -> Result<(), StoreError> {
        let row = (key.clone(), since, job);
        let has_changed = if is_listed {
            self.limit_running.insert(row)
        } else {
            self.limit_running.remove(&row)
        };
        assert!(has_changed, "{key} lists {job} once: {is_listed}");
        Ok(())
    }

    fn listed_running(
        &mut self,
        key: &LimitKey,
        limit: usize,
    ) -> Result<Vec<Option<JobId>>, StoreError> {
        let listed = self.limit_running.iter().filter(|row| row.0 == *key);
        Ok(listed.take(limit).map(|row| Some(row.2)).collect())
    }
}

impl Model {
    /// Returns when the next key is due: immediately if a limit has changed.
    pub(super) fn next_key(&mut self) -> Result<Option<Time>, StoreError> {
        let limits: Vec<KeptLimit> = self.list(Range::all())?;
        let changed = limits.iter().any(KeptLimit::has_changed);
        let keys = self.keys()?;
        let times = keys.iter().filter_map(|it| it.wake_at);
        Ok(changed.then_some(AT_ONCE).into_iter().chain(times).min())
    }

    /// Returns the keys of all limits.
    pub(super) fn keys(&mut self) -> Result<Vec<KeptKey>, StoreError> {
        self.list(Range::all())
    }

    /// Returns the fullest keys of a limit.
    pub(super) fn fullest(
        &mut self,
        number: u64,
        limit: u32,
    ) -> Result<Vec<(String, KeyUse)>, StoreError> {
        let mut keys = self.keys()?;
        keys.retain(|it| it.key.limit == number);
        keys.sort_by_key(|it| std::cmp::Reverse(it.used.waiting));
        keys.truncate(limit as usize);
        let name_and_use = |it: KeptKey| (it.key.key.to_string(), it.used);
        Ok(keys.into_iter().map(name_and_use).collect())
    }
}
