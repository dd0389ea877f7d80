//! Limits of a store in memory.

use std::sync::Arc;

use host_core::id::JobId;
use host_core::job::LimitKey;
use host_core::limit::{KeptLimit, KeyUse, Limits};
use host_core::time::Time;
use host_store::StoreError;
use host_store::engine::{AT_ONCE, LimitRows};

use super::Model;

impl LimitRows for Model {
    fn limits(&mut self) -> Result<Arc<Limits>, StoreError> {
        Ok(Arc::new(self.limits.clone()))
    }

    fn put_limit(&mut self, kept: &KeptLimit) -> Result<(), StoreError> {
        self.limits.0.insert(kept.number, kept.clone());
        Ok(())
    }

    fn set_limit_cursor(&mut self, number: u64, cursor: Option<&str>) -> Result<(), StoreError> {
        if let Some(kept) = self.limits.0.get_mut(&number) {
            kept.cursor = cursor.map(str::to_owned);
        }
        Ok(())
    }

    fn delete_limit(&mut self, number: u64) -> Result<(), StoreError> {
        self.limits.0.remove(&number);
        Ok(())
    }

    fn changed_limits(&mut self, limit: usize) -> Result<Vec<KeptLimit>, StoreError> {
        let changed = self.limits.0.values().filter(|kept| has_changed(kept));
        Ok(changed.take(limit).cloned().collect())
    }

    fn key_use(&mut self, key: &LimitKey) -> Result<KeyUse, StoreError> {
        Ok(self
            .limit_keys
            .get(key)
            .map(|(used, _)| *used)
            .unwrap_or_default())
    }

    fn set_key_use(
        &mut self,
        key: &LimitKey,
        used: Option<(KeyUse, Option<Time>)>,
    ) -> Result<(), StoreError> {
        match used {
            Some(used) => drop(self.limit_keys.insert(key.clone(), used)),
            None => drop(self.limit_keys.remove(key)),
        }
        Ok(())
    }

    fn first_waiting(&mut self, key: &LimitKey) -> Result<Option<JobId>, StoreError> {
        let waiting = self
            .entries()
            .filter(|entry| entry.lifecycle.waits_for_key() == Some(key));
        let first = waiting.min_by_key(|entry| (entry.lifecycle.priority, entry.seq));
        Ok(first.map(|entry| entry.lifecycle.id))
    }

    fn due_keys(&mut self, now: Time, limit: usize) -> Result<Vec<LimitKey>, StoreError> {
        let keys = self.limit_keys.iter();
        let mut due: Vec<(Time, &LimitKey)> = keys
            .filter_map(|(key, (_, wake_at))| Some(((*wake_at)?, key)))
            .filter(|(at, _)| *at <= now)
            .collect();
        due.sort_unstable();
        Ok(due
            .into_iter()
            .take(limit)
            .map(|(_, key)| key.clone())
            .collect())
    }

    fn keys_from(
        &mut self,
        number: u64,
        from: &str,
        limit: usize,
    ) -> Result<Vec<LimitKey>, StoreError> {
        let keys = self
            .limit_keys
            .keys()
            .filter(|key| key.limit == number && &*key.key >= from);
        Ok(keys.take(limit).cloned().collect())
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

fn has_changed(kept: &KeptLimit) -> bool {
    kept.is_removed || kept.cursor.is_some()
}

impl Model {
    /// Returns when the next key is due: immediately if a limit has changed.
    pub(super) fn next_key(&self) -> Option<Time> {
        let changed = self.limits.0.values().any(has_changed);
        let times = self.limit_keys.values().filter_map(|(_, at)| *at);
        changed.then_some(AT_ONCE).into_iter().chain(times).min()
    }

    /// Returns the fullest keys of a limit.
    pub(super) fn fullest(&self, number: u64, limit: u32) -> Vec<(String, KeyUse)> {
        let mut keys: Vec<(String, KeyUse)> = self
            .limit_keys
            .iter()
            .filter(|(key, _)| key.limit == number)
            .map(|(key, (used, _))| (key.key.to_string(), *used))
            .collect();
        keys.sort_by_key(|(_, used)| std::cmp::Reverse(used.waiting));
        keys.truncate(limit as usize);
        keys
    }
}
