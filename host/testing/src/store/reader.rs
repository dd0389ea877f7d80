//! Reads a store in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use host_core::access::token::KeptToken;
use host_core::audit::Entry as AuditEntry;
use host_core::handler::{Digest, Revision};
use host_core::id::{BatchId, JobId};
use host_core::job::{LimitKey, STATES, State};
use host_core::job_batch::JobBatch;
use host_core::limit::{KeyUse, Limits};
use host_core::name::Name;
use host_core::outcome::Attempt;
use host_core::query::{
    Changes, Cursor, JobCount, JobDetail, JobFilter, JobSummary, Order, PAGE_ITEMS_MAX, Page,
    QueueStatus, RemoteLease,
};
use host_core::schedule::{Firing, KeptSchedule};
use host_core::state::{Space, SpaceUsage, StateKey, StateValue};
use host_core::time::Time;
use host_store::engine::{AccessRows as _, LimitRows as _};
use host_store::{Reader, StoreError};
use parking_lot::Mutex;

use super::{Entry, Model, current_revisions};

pub(super) struct MemoryReader {
    pub(super) state: Arc<Mutex<Model>>,
}

impl MemoryReader {
    fn schedules_where(
        &self,
        limit: u32,
        is_wanted: impl Fn(&KeptSchedule) -> bool,
    ) -> Vec<KeptSchedule> {
        let model = self.state.lock();
        let wanted = model.schedules.values().filter(|kept| is_wanted(kept));
        wanted.take(limit as usize).cloned().collect()
    }
}

impl Reader for MemoryReader {
    fn job(&self, id: JobId) -> Result<Option<JobDetail>, StoreError> {
        Ok(self.state.lock().jobs.get(&id).map(|entry| JobDetail {
            lifecycle: entry.lifecycle.clone(),
            payload: entry.payload.clone(),
            unique_key: entry.unique_key.clone(),
            depends_on: entry.depends_on.clone(),
            result: entry.ending.result.clone(),
            failure: entry.ending.failure.clone(),
            progress: entry.ending.progress.clone(),
        }))
    }

    fn job_ids(&self, prefix: &str, limit: u32) -> Result<Vec<JobId>, StoreError> {
        let model = self.state.lock();
        let ids = model
            .jobs
            .keys()
            .filter(|id| id.to_string().starts_with(prefix));
        Ok(ids.take(limit as usize).copied().collect())
    }

    fn state(&self, id: JobId) -> Result<Option<State>, StoreError> {
        Ok(self
            .state
            .lock()
            .jobs
            .get(&id)
            .map(|entry| entry.lifecycle.state))
    }

    fn dependents(&self, id: JobId, limit: u32) -> Result<Vec<JobId>, StoreError> {
        let model = self.state.lock();
        let prerequisite = [id];
        let found = model.waits.on(&prerequisite).take(limit as usize);
        Ok(found.map(|(_, job)| job).collect())
    }

    fn jobs(
        &self,
        filter: &JobFilter,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<JobSummary>, StoreError> {
        let limit = limit.min(PAGE_ITEMS_MAX) as usize;
        let model = self.state.lock();
        let (found, next) = page(&model, filter, after, limit);
        let items = found.iter().take(limit).map(|entry| {
            let wire = entry.payload.wire.clone();
            JobSummary::new(entry.lifecycle.clone(), entry.attempts.last(), wire)
        });
        Ok(Page {
            items: items.collect(),
            next,
        })
    }

    fn matching(
        &self,
        filter: &JobFilter,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<JobId>, StoreError> {
        let limit = limit.min(PAGE_ITEMS_MAX) as usize;
        let model = self.state.lock();
        let (found, next) = page(&model, filter, after, limit);
        let items = found.iter().take(limit).map(|entry| entry.lifecycle.id);
        Ok(Page {
            items: items.collect(),
            next,
        })
    }

    /// This store always examines all jobs.
    fn count(
        &self,
        filter: &JobFilter,
        _after: Option<Cursor>,
        _examined_max: u64,
    ) -> Result<JobCount, StoreError> {
        let model = self.state.lock();
        let mut count = JobCount {
            complete: true,
            ..JobCount::default()
        };
        for entry in model.entries().filter(|entry| matches(filter, entry)) {
            count.add(&entry.lifecycle);
        }
        Ok(count)
    }

    fn attempts(&self, id: JobId, after: u32, limit: u32) -> Result<Vec<Attempt>, StoreError> {
        let model = self.state.lock();
        Ok(model
            .jobs
            .get(&id)
            .map(|entry| {
                let later = entry
                    .attempts
                    .iter()
                    .filter(|attempt| attempt.number > after);
                later.take(limit as usize).cloned().collect()
            })
            .unwrap_or_default())
    }

    fn attempts_since(
        &self,
        since: Time,
        limit: u32,
    ) -> Result<Vec<(String, Attempt)>, StoreError> {
        let model = self.state.lock();
        let jobs = model
            .order
            .values()
            .rev()
            .filter_map(|id| model.jobs.get(id));
        let all = jobs.flat_map(|entry| {
            let attempts = entry.attempts.iter().rev();
            attempts.map(|attempt| (entry.lifecycle.handler.to_string(), attempt.clone()))
        });
        let newest = all.take(limit as usize);
        let is_ours =
            |attempt: &Attempt| attempt.revision.is_some() && attempt.finished_at >= since;
        Ok(newest.filter(|(_, attempt)| is_ours(attempt)).collect())
    }

    /// This store forgets no changes.
    fn changes(&self, after: u64, limit: u32) -> Result<Changes, StoreError> {
        let model = self.state.lock();
        let later = model.changes.iter().filter(|change| change.number > after);
        Ok(Changes {
            items: later.take(limit as usize).cloned().collect(),
            oldest: 1,
            next: 1 + model.changes.len() as u64,
        })
    }

    fn queues(&self) -> Result<Vec<QueueStatus>, StoreError> {
        let model = self.state.lock();
        let mut queues: BTreeMap<Name, QueueStatus> = BTreeMap::new();
        let status = |name: &Name, paused| QueueStatus {
            name: name.clone(),
            paused,
            counts: [0; STATES.len()],
        };
        for (name, paused) in &model.paused {
            queues.insert(name.clone(), status(name, *paused));
        }
        for entry in model.entries() {
            let job = &entry.lifecycle;
            let queue = queues
                .entry(job.queue.clone())
                .or_insert_with(|| status(&job.queue, false));
            queue.counts[job.state as usize] += 1;
        }
        Ok(queues.into_values().collect())
    }

    fn oldest_available(
        &self,
        queues: &[Name],
        runners: &[Name],
    ) -> Result<Vec<(Name, Time)>, StoreError> {
        let model = self.state.lock();
        let oldest = |queue: &Name| {
            model.entries().map(|it| &it.lifecycle).find(|job| {
                let runner = job.runner.as_ref();
                let is_seen = runner.map_or(!job.suspicion.is_apart(), |it| runners.contains(it));
                job.state == State::Available && job.queue == *queue && is_seen
            })
        };
        let found = queues.iter().filter_map(oldest);
        Ok(found.map(|it| (it.queue.clone(), it.enqueued_at)).collect())
    }

    fn is_paused(&self, queue: &Name) -> Result<bool, StoreError> {
        let paused = self.state.lock().paused.get(queue).copied();
        Ok(paused.unwrap_or(false))
    }

    fn runners_awaited(&self) -> Result<Vec<Name>, StoreError> {
        let model = self.state.lock();
        let available = model.entries().map(|entry| &entry.lifecycle);
        let awaited: BTreeSet<Name> = available
            .filter(|job| job.state == State::Available)
            .filter_map(|job| job.runner.clone())
            .collect();
        Ok(awaited.into_iter().collect())
    }

    fn remote_leases(&self) -> Result<Vec<RemoteLease>, StoreError> {
        let model = self.state.lock();
        let jobs = model.entries().map(|entry| &entry.lifecycle);
        Ok(jobs.filter_map(RemoteLease::of).collect())
    }

    fn state_value(&self, space: &Space, key: &str) -> Result<Option<StateValue>, StoreError> {
        let model = self.state.lock();
        let key = (space.clone(), key.to_owned());
        Ok(model.state.get(&key).cloned())
    }

    fn state_keys(
        &self,
        space: &Space,
        prefix: &str,
        after: &str,
        limit: u32,
    ) -> Result<Vec<StateKey>, StoreError> {
        let model = self.state.lock();
        let of_space = model.state.iter().filter(|((of, _), _)| of == space);
        let wanted =
            of_space.filter(|((_, key), _)| key.starts_with(prefix) && key.as_str() > after);
        let keys = wanted.map(|((_, key), found)| StateKey {
            key: key.clone(),
            bytes: found.value.len() as u64,
            at: found.at,
        });
        Ok(keys.take(limit as usize).collect())
    }

    fn state_spaces(&self, after: &str, limit: u32) -> Result<Vec<SpaceUsage>, StoreError> {
        let model = self.state.lock();
        let all = model.state_usages.iter();
        let used =
            all.filter(|(space, usage)| usage.keys > 0 && space.to_string().as_str() > after);
        let spaces = used.map(|(space, usage)| SpaceUsage {
            space: space.clone(),
            usage: *usage,
        });
        Ok(spaces.take(limit as usize).collect())
    }

    fn components(&self) -> Result<Vec<Revision>, StoreError> {
        Ok(current_revisions(&self.state.lock()))
    }

    fn revisions(&self, component: &Name) -> Result<(Vec<Revision>, u32), StoreError> {
        let model = self.state.lock();
        let mut revisions = model.revisions.get(component).cloned().unwrap_or_default();
        revisions.reverse();
        let current = model.current.get(component).copied().unwrap_or_default();
        Ok((revisions, current))
    }

    fn schedule(&self, name: &Name) -> Result<Option<KeptSchedule>, StoreError> {
        Ok(self.state.lock().schedules.get(name).cloned())
    }

    fn schedules(&self, after: &str, limit: u32) -> Result<Vec<KeptSchedule>, StoreError> {
        Ok(self.schedules_where(limit, |kept| kept.schedule.name.as_str() > after))
    }

    fn schedules_due(&self, until: Time, limit: u32) -> Result<Vec<KeptSchedule>, StoreError> {
        let is_due = |kept: &KeptSchedule| kept.fires_at().is_some_and(|at| at <= until);
        let mut due = self.schedules_where(u32::MAX, is_due);
        due.sort_by_key(KeptSchedule::fires_at);
        due.truncate(limit as usize);
        Ok(due)
    }

    fn schedules_holding(&self, after: &str, limit: u32) -> Result<Vec<KeptSchedule>, StoreError> {
        let holds = |kept: &KeptSchedule| kept.holds() && kept.schedule.name.as_str() > after;
        Ok(self.schedules_where(limit, holds))
    }

    fn firings(&self, schedule: &Name) -> Result<Vec<Firing>, StoreError> {
        let model = self.state.lock();
        let firings = model.firings.get(schedule).into_iter().flatten();
        Ok(firings.rev().cloned().collect())
    }

    fn job_batch(&self, id: BatchId) -> Result<Option<JobBatch>, StoreError> {
        Ok(self.state.lock().batches.get(&id).cloned())
    }

    fn job_batches(
        &self,
        before: Option<BatchId>,
        limit: u32,
    ) -> Result<Vec<JobBatch>, StoreError> {
        let model = self.state.lock();
        let older = model
            .batches
            .values()
            .rev()
            .filter(|it| before.is_none_or(|before| it.id < before));
        Ok(older.take(limit as usize).cloned().collect())
    }

    fn count_job_batches(&self) -> Result<u64, StoreError> {
        Ok(self.state.lock().open_batches())
    }

    fn limits(&self) -> Result<Limits, StoreError> {
        Ok(self.state.lock().limits.clone())
    }

    fn fullest_keys(&self, number: u64, limit: u32) -> Result<Vec<(String, KeyUse)>, StoreError> {
        Ok(self.state.lock().fullest(number, limit))
    }

    fn key_use(&self, key: &LimitKey) -> Result<KeyUse, StoreError> {
        self.state.lock().key_use(key)
    }

    fn waiting_for_limits(&self) -> Result<BTreeMap<u64, u64>, StoreError> {
        let mut waiting = BTreeMap::new();
        for (key, (used, _)) in &self.state.lock().limit_keys {
            *waiting.entry(key.limit).or_default() += used.waiting;
        }
        Ok(waiting.into_iter().filter(|(_, jobs)| *jobs > 0).collect())
    }

    fn tokens(&self) -> Result<Vec<KeptToken>, StoreError> {
        Ok(self.state.lock().tokens.values().cloned().collect())
    }

    fn owned(&self, principal: &str) -> Result<u64, StoreError> {
        self.state.lock().owned(principal)
    }

    fn audit(&self, after: u64, since: Time, limit: u32) -> Result<Vec<AuditEntry>, StoreError> {
        let model = self.state.lock();
        let later = model
            .audit
            .iter()
            .filter(|entry| entry.number > after && entry.at >= since);
        Ok(later.take(limit as usize).cloned().collect())
    }

    fn component_bytes(&self, digest: Digest) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.state.lock().blobs.get(&digest).cloned())
    }
}

/// Returns one more job than `limit` that match, and where the next page starts.
fn page<'a>(
    model: &'a Model,
    filter: &JobFilter,
    after: Option<Cursor>,
    limit: usize,
) -> (Vec<&'a Entry>, Option<Cursor>) {
    let places: Box<dyn Iterator<Item = (&u64, &JobId)>> = match (filter.order, after) {
        (Order::Newest, None) => Box::new(model.order.iter().rev()),
        (Order::Newest, Some(Cursor(last))) => Box::new(model.order.range(..last).rev()),
        (Order::Oldest, None) => Box::new(model.order.iter()),
        (Order::Oldest, Some(Cursor(last))) => Box::new(model.order.range(last + 1..)),
    };
    let found: Vec<&Entry> = places
        .filter_map(|(_, id)| model.jobs.get(id))
        .filter(|entry| matches(filter, entry))
        .take(limit + 1)
        .collect();
    let next = (found.len() > limit).then(|| Cursor(found[limit - 1].seq));
    (found, next)
}

fn matches(filter: &JobFilter, entry: &Entry) -> bool {
    let payload = (&entry.payload, entry.unique_key.as_deref());
    filter.has(&entry.lifecycle)
        && filter.has_rest(&entry.lifecycle, Some(payload), entry.attempts.last())
}
