//! A store in memory that is simple enough to be obviously correct. Tests compare every other
//! backend with it. Its data is lost when it is dropped.

mod job_batches;
mod limits;
mod reader;
mod tables;
mod waits;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use host_core::failure::Failure;
use host_core::id::JobId;
use host_core::job::{Lane, Lifecycle, LimitKey, NewJob, Payload, State};
use host_core::json::JsonText;
use host_core::name::Name;
use host_core::outcome::{Attempt, Progress};
use host_core::port::Clock;
use host_core::query::{Change, NumberedChange};
use host_core::state::Space;
use host_core::time::Time;
use host_engine::artifact::tables::{ARTIFACT_CONTENTS, ARTIFACTS, INPUT_FILES};
use host_engine::batch::JobBatch;
use host_engine::component::Revision;
use host_engine::component::tables::Blob;
use host_engine::job::Cascade;
use host_engine::queue::QueueRefusal;
use host_engine::state::StateRows;
use host_engine::state::tables::StateEntry;
use host_engine::step::tables::STEPS;
use host_engine::table::{Range, TableRows as _, Value};
use host_engine::token::AccessRows;
use host_engine::{
    Bounds, Capacity, Command, Committed, Counts, EndedAttempt, LIVE_JOBS_COUNTED, Reader, Rows,
    Store, StoreError, Terms,
};
use parking_lot::Mutex;

use self::reader::MemoryReader;
use self::waits::Waits;

/// A store that keeps everything in memory.
#[derive(Default)]
pub struct MemoryStore {
    state: Arc<Mutex<Model>>,
    bounds: Bounds,
}

#[derive(Clone, Default)]
struct Model {
    next_seq: u64,
    order: BTreeMap<u64, JobId>,
    jobs: BTreeMap<JobId, Entry>,
    unique_keys: BTreeMap<(Name, String), JobId>,
    waits: Waits,
    changes: Vec<NumberedChange>,
    paused: BTreeMap<Name, bool>,
    tables: tables::Rows,
    limit_running: BTreeSet<(LimitKey, Time, JobId)>,
    passed_over: BTreeSet<JobId>,
}

#[derive(Clone)]
struct Entry {
    seq: u64,
    /// Its place in the order of claims, behind its priority.
    rank: u64,
    lifecycle: Lifecycle,
    payload: Payload,
    unique_key: Option<String>,
    depends_on: Vec<JobId>,
    ending: Ending,
    attempts: Vec<Attempt>,
}

/// The result of a job's latest attempt, or why the job failed after it.
#[derive(Clone, Default)]
struct Ending {
    result: Option<JsonText>,
    failure: Option<Failure>,
    progress: Option<Progress>,
}

impl Store for MemoryStore {
    fn commit(&mut self, now: Time, batch: &[Command]) -> Result<Committed, StoreError> {
        host_engine::run(&mut *self.state.lock(), now, &self.bounds, batch)
    }

    fn limit(&mut self, capacity: Capacity, clock: Arc<dyn Clock>) {
        let clock = Some(clock);
        self.bounds = Bounds { capacity, clock };
    }

    fn reader(&self) -> Result<Box<dyn Reader>, StoreError> {
        Ok(Box::new(MemoryReader {
            state: Arc::clone(&self.state),
        }))
    }
}

impl Model {
    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.order.values().filter_map(|id| self.jobs.get(id))
    }

    fn is_paused(&self, queue: &Name) -> bool {
        self.paused.get(queue).copied().unwrap_or(false)
    }

    fn entry(&mut self, id: JobId) -> Result<&mut Entry, StoreError> {
        self.jobs.get_mut(&id).ok_or_else(|| StoreError::Damaged {
            what: format!("job {id}"),
            message: "it no longer exists".to_owned(),
        })
    }
}

impl Rows for Model {
    fn job(&mut self, id: JobId) -> Result<Option<Lifecycle>, StoreError> {
        Ok(self.jobs.get(&id).map(|entry| entry.lifecycle.clone()))
    }

    fn payload(&mut self, id: JobId) -> Result<Payload, StoreError> {
        Ok(self.entry(id)?.payload.clone())
    }

    fn set_params(&mut self, id: JobId, params: &JsonText) -> Result<(), StoreError> {
        self.entry(id)?.payload.params.clone_from(params);
        Ok(())
    }

    fn insert(&mut self, job: &Lifecycle, new: &NewJob) -> Result<(), StoreError> {
        let seq = self.next_seq;
        self.next_seq += 1;
        self.order.insert(seq, job.id);
        // A queue stays known after its last job is gone.
        self.paused.entry(job.queue.clone()).or_insert(false);
        let entry = Entry {
            seq,
            rank: seq,
            lifecycle: job.clone(),
            payload: new.payload.clone(),
            unique_key: new.unique_key.as_ref().map(|unique| unique.key.clone()),
            depends_on: new.depends_on.clone(),
            ending: Ending::default(),
            attempts: Vec::new(),
        };
        self.jobs.insert(job.id, entry);
        match &new.unique_key {
            Some(unique) => self.set_unique_key(job, &unique.key),
            None => Ok(()),
        }
    }

    fn update(&mut self, _before: &Lifecycle, after: &Lifecycle) -> Result<(), StoreError> {
        self.entry(after.id)?.lifecycle = after.clone();
        Ok(())
    }

    fn delete(&mut self, job: &Lifecycle) -> Result<(), StoreError> {
        let seq = self.entry(job.id)?.seq;
        self.order.remove(&seq);
        self.jobs.remove(&job.id);
        self.waits.clear(seq);
        self.unique_keys.retain(|_, holder| *holder != job.id);
        let of_job = vec![Value::from(job.id.0)];
        self.delete_rows(&ARTIFACTS, Range::of(of_job.clone()))?;
        self.delete_rows(&ARTIFACT_CONTENTS, Range::of(of_job.clone()))?;
        self.delete_rows(&INPUT_FILES, Range::of(of_job.clone()))?;
        self.delete_rows(&STEPS, Range::of(of_job))?;
        Ok(())
    }

    fn add_attempt(&mut self, id: JobId, ended: &EndedAttempt) -> Result<(), StoreError> {
        let entry = self.entry(id)?;
        entry.attempts.push(ended.attempt.clone());
        entry.ending = Ending {
            result: ended.result.clone(),
            failure: ended.attempt.failure.clone(),
            progress: ended.progress.clone(),
        };
        Ok(())
    }

    fn forget_attempts(&mut self, id: JobId, number: u32) -> Result<(), StoreError> {
        let attempts = &mut self.entry(id)?.attempts;
        attempts.retain(|attempt| attempt.number >= number);
        Ok(())
    }

    fn result(&mut self, id: JobId) -> Result<Option<JsonText>, StoreError> {
        let result = |entry: &Entry| entry.ending.result.clone().unwrap_or_else(JsonText::null);
        Ok(self.jobs.get(&id).map(result))
    }

    fn set_failure(&mut self, job: &Lifecycle, failure: &Failure) -> Result<(), StoreError> {
        self.entry(job.id)?.ending = Ending {
            failure: Some(failure.clone()),
            ..Ending::default()
        };
        Ok(())
    }

    fn terms(&mut self, id: JobId) -> Result<Terms, StoreError> {
        let entry = self.entry(id)?;
        Ok(Terms {
            unique_key: entry.unique_key.clone(),
            depends_on: entry.depends_on.clone(),
            is_foreign: entry.payload.external_id.is_some(),
        })
    }

    fn set_unique_key(&mut self, job: &Lifecycle, key: &str) -> Result<(), StoreError> {
        let key = (job.queue.clone(), key.to_owned());
        self.unique_keys.insert(key, job.id);
        Ok(())
    }

    fn by_unique_key(&mut self, queue: &Name, key: &str) -> Result<Option<JobId>, StoreError> {
        let key = (queue.clone(), key.to_owned());
        Ok(self.unique_keys.get(&key).copied())
    }

    fn set_dependencies(
        &mut self,
        job: &Lifecycle,
        prerequisites: &[JobId],
    ) -> Result<(), StoreError> {
        let seq = self.entry(job.id)?.seq;
        self.waits.clear(seq);
        self.waits.add(seq, job.id, prerequisites);
        Ok(())
    }

    fn dependencies(
        &mut self,
        on: &[JobId],
        limit: usize,
    ) -> Result<Vec<(JobId, JobId)>, StoreError> {
        Ok(self.waits.on(on).take(limit).collect())
    }

    fn remove_dependencies(&mut self, settled: &[(JobId, JobId)]) -> Result<(), StoreError> {
        for settled in settled {
            self.waits.remove(*settled);
        }
        Ok(())
    }

    fn keep_cascades(&mut self, cascades: &[Cascade]) -> Result<(), StoreError> {
        for cascade in cascades {
            self.waits.keep_cascade(*cascade);
        }
        Ok(())
    }

    fn cascades(&mut self, limit: usize) -> Result<Vec<Cascade>, StoreError> {
        Ok(self.waits.cascades.iter().take(limit).copied().collect())
    }

    fn end_cascade(&mut self, prerequisite: JobId) -> Result<(), StoreError> {
        self.waits.end_cascade(prerequisite);
        Ok(())
    }

    fn is_cascading(&mut self, prerequisite: JobId) -> Result<bool, StoreError> {
        Ok(self.waits.is_cascading(prerequisite))
    }

    fn claimable(
        &mut self,
        lane: &Lane,
        except: &BTreeSet<Name>,
        limit: usize,
    ) -> Result<Vec<JobId>, StoreError> {
        let mut found: Vec<(u8, u64, JobId)> = self
            .entries()
            .filter(|entry| {
                let job = &entry.lifecycle;
                job.state == State::Available
                    && lane.has(job)
                    && !except.contains(&job.handler)
                    && !self.is_paused(&job.queue)
            })
            .map(|entry| (entry.lifecycle.priority, entry.rank, entry.lifecycle.id))
            .collect();
        found.sort_unstable();
        Ok(found.into_iter().take(limit).map(|(_, _, id)| id).collect())
    }

    fn passed_over(&mut self) -> &mut BTreeSet<JobId> {
        &mut self.passed_over
    }

    fn due(&mut self, now: Time, limit: u32) -> Result<Vec<JobId>, StoreError> {
        let mut found: Vec<(Time, u64, JobId)> = self
            .entries()
            .filter_map(|entry| {
                let due = entry.lifecycle.wakeup().filter(|due| *due <= now)?;
                Some((due, entry.seq, entry.lifecycle.id))
            })
            .collect();
        found.sort_unstable();
        found.truncate(limit as usize);
        Ok(found.into_iter().map(|(_, _, id)| id).collect())
    }

    fn running(&mut self, after: i64, limit: usize) -> Result<Vec<(i64, JobId)>, StoreError> {
        let running = self.entries().filter_map(|entry| {
            let place = i64::try_from(entry.seq).ok()?.checked_add(1)?;
            let is_next = entry.lifecycle.state == State::Running && place > after;
            is_next.then_some((place, entry.lifecycle.id))
        });
        Ok(running.take(limit).collect())
    }

    fn next_wakeup(&mut self) -> Result<Option<Time>, StoreError> {
        if !self.waits.cascades.is_empty() {
            return Ok(Some(Time(0)));
        }
        let batches: Vec<JobBatch> = self.list(Range::all())?;
        let next_key = self.next_key()?;
        let of_jobs = self.entries().filter_map(|entry| entry.lifecycle.wakeup());
        let of_batches = batches.iter().filter_map(JobBatch::wake_at);
        Ok(of_jobs.chain(next_key).chain(of_batches).min())
    }

    fn available(&mut self) -> Result<u64, StoreError> {
        let available = self.entries().filter(|entry| {
            let job = &entry.lifecycle;
            job.state == State::Available && job.executor.is_none() && !self.is_paused(&job.queue)
        });
        Ok(available.count() as u64)
    }

    fn set_paused(&mut self, queue: &Name, paused: bool) -> Result<(), StoreError> {
        self.paused.insert(queue.clone(), paused);
        Ok(())
    }

    fn remove_queue(&mut self, queue: &Name) -> Result<Result<(), QueueRefusal>, StoreError> {
        if self.entries().any(|entry| entry.lifecycle.queue == *queue) {
            return Ok(Err(QueueRefusal::HasJobs(queue.clone())));
        }
        let removed = self.paused.remove(queue);
        Ok(removed
            .map(drop)
            .ok_or(QueueRefusal::Unknown(queue.clone())))
    }

    fn has_queue(&mut self, queue: &Name) -> bool {
        self.paused.contains_key(queue)
    }

    fn counts(&mut self) -> Counts {
        let live = self
            .jobs
            .values()
            .filter(|job| !job.lifecycle.state.is_terminal());
        Counts {
            queues: self.paused.len() as u64,
            live: live.count() as u64,
        }
    }

    fn keep_changes(&mut self, now: Time, changes: &[Change]) -> Result<Option<u64>, StoreError> {
        let first = 1 + self.changes.len() as u64;
        let numbered = (first..).zip(changes);
        self.changes
            .extend(numbered.map(|(number, change)| NumberedChange {
                number,
                at: now,
                change: change.clone(),
            }));
        Ok(Some(first))
    }

    fn forget_blobs(&mut self) -> Result<(), StoreError> {
        let revisions: Vec<Revision> = self.list(Range::all())?;
        for blob in self.list::<Blob>(Range::all())? {
            if revisions.iter().all(|it| it.digest != blob.digest) {
                self.remove::<Blob>(blob.digest)?;
            }
        }
        Ok(())
    }

    fn live_jobs(&mut self, handler: &Name) -> Result<u64, StoreError> {
        let live = self.entries().filter(|entry| {
            let job = &entry.lifecycle;
            job.handler == *handler && job.executor.is_none() && !job.state.is_terminal()
        });
        Ok(live.take(LIVE_JOBS_COUNTED as usize).count() as u64)
    }
}

impl StateRows for Model {
    fn state_length(&mut self, space: &Space, key: &str) -> Result<Option<u64>, StoreError> {
        let found: Option<StateEntry> = self.get((space, key))?;
        Ok(found.map(|found| found.value.value.len() as u64))
    }
}

impl AccessRows for Model {
    fn owned(&mut self, principal: &str) -> Result<u64, StoreError> {
        let live = self
            .entries()
            .map(|entry| &entry.lifecycle)
            .filter(|job| !job.state.is_terminal());
        let owned = live.filter(|job| job.owner.as_deref() == Some(principal));
        Ok(owned.count() as u64)
    }

    /// They are counted on request.
    fn count_owned(&mut self, _principal: &str, _step: i64) -> Result<(), StoreError> {
        Ok(())
    }
}
