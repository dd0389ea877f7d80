//! Reads a store in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use host_core::id::JobId;
use host_core::job::{STATES, State};
use host_core::name::Name;
use host_core::outcome::Attempt;
use host_core::query::{
    Changes, Cursor, JobCount, JobDetail, JobFilter, JobSummary, Order, PAGE_ITEMS_MAX, Page,
    QueueStatus, RemoteLease,
};
use host_core::state::{Space, StateKey};
use host_core::time::Time;
use host_engine::limit::KeyUse;
use host_engine::state::tables::StateEntry;
use host_engine::table::{Range, Record as _, Row, Select};
use host_engine::token::AccessRows as _;
use host_engine::{Reader, StoreError};
use parking_lot::Mutex;

use super::{Entry, Model};

pub(super) struct MemoryReader {
    pub(super) state: Arc<Mutex<Model>>,
}

impl Reader for MemoryReader {
    fn select(&self, ranges: &[Select]) -> Result<Vec<Vec<Row>>, StoreError> {
        let model = self.state.lock();
        let rows = ranges.iter().map(|it| model.rows(it.table, &it.range));
        Ok(rows.collect())
    }

    fn count_rows(&self, it: &Select) -> Result<u64, StoreError> {
        Ok(self.state.lock().rows(it.table, &it.range).len() as u64)
    }

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
        executors: &[Name],
    ) -> Result<Vec<(Name, Time)>, StoreError> {
        let model = self.state.lock();
        let oldest = |queue: &Name| {
            model.entries().map(|it| &it.lifecycle).find(|job| {
                let executor = job.executor.as_ref();
                let is_seen =
                    executor.map_or(!job.suspicion.is_apart(), |it| executors.contains(it));
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

    fn executors_awaited(&self) -> Result<Vec<Name>, StoreError> {
        let model = self.state.lock();
        let available = model.entries().map(|entry| &entry.lifecycle);
        let awaited: BTreeSet<Name> = available
            .filter(|job| job.state == State::Available)
            .filter_map(|job| job.executor.clone())
            .collect();
        Ok(awaited.into_iter().collect())
    }

    fn remote_leases(&self) -> Result<Vec<RemoteLease>, StoreError> {
        let model = self.state.lock();
        let jobs = model.entries().map(|entry| &entry.lifecycle);
        Ok(jobs.filter_map(RemoteLease::of).collect())
    }

    fn state_keys(
        &self,
        space: &Space,
        prefix: &str,
        after: &str,
        limit: u32,
    ) -> Result<Vec<StateKey>, StoreError> {
        let model = self.state.lock();
        let range = Range::of([space.to_string().into()]).after(after);
        let rows = model.rows(StateEntry::TABLE, &range).into_iter();
        let wanted = rows.filter_map(|row| StateEntry::from_row(row).ok());
        let keys = wanted
            .filter(|it| it.key.starts_with(prefix))
            .map(|it| StateKey {
                key: it.key,
                bytes: it.value.value.len() as u64,
                at: it.value.at,
            });
        Ok(keys.take(limit as usize).collect())
    }

    fn fullest_keys(&self, number: u64, limit: u32) -> Result<Vec<(String, KeyUse)>, StoreError> {
        self.state.lock().fullest(number, limit)
    }

    fn waiting_for_limits(&self) -> Result<BTreeMap<u64, u64>, StoreError> {
        let mut waiting = BTreeMap::new();
        for kept in self.state.lock().keys()? {
            *waiting.entry(kept.key.limit).or_default() += kept.used.waiting;
        }
        Ok(waiting.into_iter().filter(|(_, jobs)| *jobs > 0).collect())
    }

    fn owned(&self, principal: &str) -> Result<u64, StoreError> {
        self.state.lock().owned(principal)
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
