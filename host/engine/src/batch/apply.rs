//! Batches of jobs: making, closing and cancelling them; and, at the end of a turn, counting what it has changed of each and
//! enqueuing the callbacks that are due.

use std::collections::BTreeMap;

use host_core::id::{BatchId, JobId};
use host_core::job::{Lifecycle, NewJob, State};
use host_core::transition::Input;

use super::tables::{BATCHES, progress};
use super::{
    BATCH_JOBS_MAX, BATCHES_MAX, BatchCancel, BatchProgress, BatchRefusal, BatchStep, CancelBatch,
    CloseBatch, FAILED_NAMED_MAX, JobBatch, NewBatch, On,
};
use crate::job::Enqueued;
use crate::table::{Range, Record as _};
use crate::{Batch, Rows, Stop, StoreError};

/// How many batches a tick looks at.
const SLICE: u32 = 64;

/// How many callbacks, and failed jobs that they name, a turn enqueues, besides those of the last.
const NAMED_MAX: usize = 2_048;

/// What a turn does for users' batches, so far.
pub(crate) struct UsersBatches {
    /// How many have not ended; `None` if they were not counted.
    unended: Option<u64>,
    /// How many callbacks, and failed jobs that they name, it may still enqueue.
    named_left: usize,
}

impl Default for UsersBatches {
    fn default() -> Self {
        Self {
            unended: None,
            named_left: NAMED_MAX,
        }
    }
}

/// The jobs of batches.
pub trait BatchRows {
    /// Returns the next jobs of a batch behind a place that have not ended, each with its place, at most `limit` in the order
    /// in which they were enqueued.
    fn jobs_of_batch(
        &mut self,
        id: BatchId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, JobId)>, StoreError>;
    /// Returns the first discarded jobs of a batch that are kept, at most `limit`.
    fn discarded_of_batch(&mut self, id: BatchId, limit: usize) -> Result<Vec<JobId>, StoreError>;
}

impl<R: Rows> Batch<'_, R> {
    pub(super) fn new_batch(&mut self, new: &NewBatch) -> Result<Vec<Enqueued>, Stop> {
        let batch = JobBatch {
            id: new.id,
            plan: new.plan.clone(),
            progress: BatchProgress {
                is_open: new.is_open,
                ..BatchProgress::default()
            },
        };
        self.make_batches(vec![batch], &new.jobs)
    }

    /// Enqueues jobs with the batches that they make, all or nothing.
    pub(crate) fn enqueue(&mut self, jobs: &[NewJob]) -> Result<Vec<Enqueued>, Stop> {
        if !jobs.iter().any(NewJob::starts_batch) {
            return self.enqueue_in_batches(jobs);
        }
        // A job that exists already, because of its unique key, makes none.
        let stands_for = self.existing(jobs)?;
        let new = jobs.iter().filter(|new| stands_for[&new.id] == new.id);
        let started = new.filter_map(|new| JobBatch::started_by(new, self.now));
        self.make_batches(started.collect(), jobs)
    }

    /// Makes batches, which are open until their first jobs are enqueued.
    fn make_batches(
        &mut self,
        batches: Vec<JobBatch>,
        jobs: &[NewJob],
    ) -> Result<Vec<Enqueued>, Stop> {
        let unended = match self.of_users.unended {
            Some(counted) => counted,
            None => self.rows.count_rows(&BATCHES, Range::all().marked())?,
        };
        self.of_users.unended = Some(unended);
        if unended + batches.len() as u64 > BATCHES_MAX {
            return Err(BatchRefusal::TooMany { limit: BATCHES_MAX }.into());
        }
        for (_, callback) in batches.iter().flat_map(|batch| &batch.plan.callbacks) {
            self.check_callback(callback)?;
        }
        for batch in &batches {
            let mut open = batch.clone();
            open.progress.is_open = true;
            self.rows.put(&open)?;
        }
        let reply = match self.enqueue_in_batches(jobs) {
            Ok(reply) => reply,
            Err(stop) => {
                for batch in batches {
                    self.rows.remove::<JobBatch>(batch.id)?;
                }
                return Err(stop);
            }
        };
        self.of_users.unended = Some(unended + batches.len() as u64);
        for batch in batches.iter().filter(|batch| !batch.progress.is_open) {
            self.close_batch(&CloseBatch { batch: batch.id })?;
        }
        Ok(reply)
    }

    /// Refuses a callback that could never be enqueued.
    fn check_callback(&mut self, callback: &NewJob) -> Result<(), Stop> {
        let callback = std::slice::from_ref(callback);
        crate::job::check_scopes(callback)?;
        self.check_deployed(callback)?;
        for new in callback {
            self.check_attempts(new.policy.max_attempts)?;
        }
        self.check_queues(callback.iter().map(|new| &new.queue))
    }

    pub(super) fn close_batch(
        &mut self,
        &CloseBatch { batch: id }: &CloseBatch,
    ) -> Result<(), Stop> {
        let mut batch = self.batch(id)?;
        if std::mem::take(&mut batch.progress.is_open) {
            self.write_progress(&batch)?;
            self.note_batch(id);
        }
        Ok(())
    }

    pub(super) fn cancel_batch(&mut self, cancel: &CancelBatch) -> Result<(), Stop> {
        let id = cancel.batch;
        let mut batch = self.batch(id)?;
        if batch.progress.ended_at.is_none() && batch.progress.cancel.is_none() {
            batch.progress.is_open = false;
            batch.progress.cancel = Some(BatchCancel {
                requested_at: self.now,
                reason: cancel.reason.clone(),
                cursor: Some(0),
            });
            self.write_progress(&batch)?;
            self.note_batch(id);
        }
        Ok(())
    }

    fn batch(&mut self, id: BatchId) -> Result<JobBatch, Stop> {
        let batch = self.rows.get(id)?;
        Ok(batch.ok_or(BatchRefusal::Unknown(id))?)
    }

    fn write_progress(&mut self, batch: &JobBatch) -> Result<(), StoreError> {
        let key = JobBatch::key(batch.id);
        self.rows.update_row(&BATCHES, key, progress(batch)?)
    }

    fn note_batch(&mut self, id: BatchId) {
        self.steps.entry(id).or_default();
    }

    /// Refuses new jobs whose batches take no more.
    pub(crate) fn check_batches<'n>(
        &mut self,
        jobs: impl Iterator<Item = &'n NewJob>,
    ) -> Result<(), Stop> {
        let mut added: BTreeMap<BatchId, (u64, &NewJob)> = BTreeMap::new();
        for new in jobs {
            if let Some(id) = new.batch_id() {
                added.entry(id).or_insert((0, new)).0 += 1;
            }
        }
        // The jobs of a command have one principal.
        for (id, (added, new)) in added {
            let batch = self.batch(id)?;
            let origin = new.payload.origin.as_ref();
            if origin.is_some_and(|it| !batch.is_visible_to(&it.principal, &it.scope)) {
                return Err(BatchRefusal::Unknown(id).into());
            }
            if !batch.takes_jobs(self.inside == Some(id)) {
                return Err(BatchRefusal::Closed(id).into());
            }
            let before = self.steps.get(&id).map_or(0, BatchStep::added);
            if batch.progress.counts.jobs + before + added > BATCH_JOBS_MAX {
                let (batch, limit) = (id, BATCH_JOBS_MAX);
                return Err(BatchRefusal::Full { batch, limit }.into());
            }
        }
        Ok(())
    }

    /// Counts a change of a job in its batch. A new job has no state before.
    pub(crate) fn count_in_batch(&mut self, before: Option<State>, after: &Lifecycle) {
        if let Some(id) = after.counts_in(before) {
            let step = self.steps.entry(id).or_default();
            step.count(before, after.state);
        }
    }

    /// Continues batches that are due. Returns how many batches and jobs it has handled, at least one if more is left.
    pub(crate) fn go_on_with_batches(&mut self, limit: usize) -> Result<usize, Stop> {
        let mut handled = 0;
        if limit == 0 {
            return Ok(handled);
        }
        let due = Range::all()
            .due(self.now)
            .first(SLICE.min(u32::try_from(limit).unwrap_or(SLICE)));
        for row in self.rows.list_rows(&BATCHES, due)? {
            handled += 1;
            let Some(batch) = self.read_due::<JobBatch>(row)? else {
                continue;
            };
            self.note_batch(batch.id);
            let cancel = batch.progress.cancel;
            if let Some((cursor, cancel)) = cancel.and_then(|it| Some((it.cursor?, it))) {
                let reason = cancel.reason.as_deref();
                handled += self.cancel_slice(batch.id, cursor, limit, reason)?;
            }
            if handled >= limit || self.is_late() {
                break;
            }
        }
        Ok(handled)
    }

    /// Cancels the next jobs of a batch. Returns how many it has looked at.
    fn cancel_slice(
        &mut self,
        id: BatchId,
        after: u64,
        limit: usize,
        reason: Option<&str>,
    ) -> Result<usize, Stop> {
        let (mut handled, mut last) = (0, None);
        for (place, job) in self.rows.jobs_of_batch(id, after, limit)? {
            // What waits for one of the slice may have ended with it.
            let job = self.readable_job(job)?;
            if let Some(job) = job.filter(|job| !job.state.is_terminal()) {
                let grace_ms = None;
                self.apply(&job, &Input::Cancel { reason, grace_ms })?;
            }
            handled += 1;
            last = Some(place);
            if self.is_late() {
                break;
            }
        }
        self.steps.entry(id).or_default().cancelled_up_to(last);
        Ok(handled)
    }

    /// Enqueues the deliveries for the jobs that have ended, counts what the turn has changed of batches, and enqueues the
    /// callbacks that are due.
    pub(crate) fn end_turn(&mut self) -> Result<(), StoreError> {
        if self.steps.is_empty() && self.deliveries.is_empty() {
            return Ok(());
        }
        // Before the locks of batches: callbacks and deliveries may be limited.
        if !self.rows.limits()?.0.is_empty() {
            self.rows.lock_limits()?;
        }
        let deliveries = std::mem::take(&mut self.deliveries);
        self.deliver(deliveries)?;
        // A callback may replace a job of another batch that waits for a limit.
        while !self.steps.is_empty() {
            let steps = std::mem::take(&mut self.steps);
            // All of them together, so that hosts lock them in the same order.
            let keys = steps.keys().map(|id| JobBatch::key(*id)).collect();
            self.rows.get_rows(&BATCHES, keys)?;
            for (id, step) in steps {
                let read = self.rows.get(id);
                if let Some(batch) = self.readable(read)?.flatten() {
                    self.count_batch(batch, step)?;
                }
            }
        }
        Ok(())
    }

    fn count_batch(&mut self, mut batch: JobBatch, step: BatchStep) -> Result<(), StoreError> {
        let before = batch.progress.clone();
        let deliveries = batch.advance(step, self.now);
        self.deliver(deliveries)?;
        if batch.is_over(self.now) {
            return self.rows.remove::<JobBatch>(batch.id);
        }
        // Otherwise they stay due for the next turn.
        let may_call = self.of_users.named_left > 0;
        for on in batch.due(self.now).into_iter().filter(|_| may_call) {
            let refused = match self.call_back(&batch, on) {
                Ok(()) => None,
                Err(Stop::Rejected(rejection)) => Some(rejection.to_string()),
                Err(Stop::Failed(error)) => return Err(error),
            };
            batch.fired(on, refused, self.now);
        }
        if batch.progress != before {
            self.write_progress(&batch)?;
        }
        Ok(())
    }

    /// Enqueues a callback.
    fn call_back(&mut self, batch: &JobBatch, on: On) -> Result<(), Stop> {
        let failed = match batch.progress.counts.discarded {
            0 => Vec::new(),
            _ => self.rows.discarded_of_batch(batch.id, FAILED_NAMED_MAX)?,
        };
        self.of_users.named_left = self.of_users.named_left.saturating_sub(1 + failed.len());
        if let Some(job) = batch.callback(on, &failed) {
            self.enqueue(&[job])?;
        }
        Ok(())
    }
}
