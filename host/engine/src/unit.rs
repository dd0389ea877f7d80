//! Applies commands to the rows of a store. Every backend uses this module, so backends differ only
//! in how they keep rows. It contains no SQL.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use host_core::failure::Failure;
use host_core::id::{BatchId, JobId};
use host_core::invariants;
use host_core::job::{KeyOfJob, Lane, Lifecycle, NewJob, Payload, State};
use host_core::json::JsonText;
use host_core::lease::Lease;
use host_core::name::{Name, address};
use host_core::outcome::{Attempt, Progress};
use host_core::port::Clock;
use host_core::query::Change;
use host_core::requests::Requests;
use host_core::time::Time;
use host_core::transition::{Effect, Input};

use crate::batch::{BatchRows, BatchStep, UsersBatches};
use crate::component::tables::{COMPONENTS, Component};
use crate::job::{Cascade, INPUT_BYTES_MAX, JobRefusal, Open, SETTLED_MAX};
use crate::limit::{Concerning, LimitRows, MOVED_MAX};
use crate::node::Dead;
use crate::queue::QueueRefusal;
use crate::state::StateRows;
use crate::table::{Range, Record, Row, TableRows};
use crate::token::AccessRows;
use crate::webhook::Ending;
use crate::{Capacity, Command, Committed, Discard, Rejection, StoreError};

/// The pause before a row that is due and cannot be read is read again, in milliseconds.
const UNREADABLE_PAUSE_MS: u64 = 60_000;

/// How many jobs that it cannot read a store passes over at most.
const PASSED_OVER_MAX: usize = 1_000;

/// How many jobs the commands of a batch change together, beside what bounds each of them: dependents that are settled, and
/// jobs that have waited for limits.
pub(crate) const SLICES_MAX: usize = SETTLED_MAX + MOVED_MAX;

/// How many of the latest attempts of a job are kept at least. Those before them are removed in slices of as many;
/// the job keeps their number and how long they took.
pub(crate) const ATTEMPTS_KEPT: u32 = 100;

/// What bounds a batch.
#[derive(Clone, Default)]
pub struct Bounds {
    pub capacity: Capacity,
    /// Measures ticks. Without it, their number of jobs is their only limit.
    pub clock: Option<Arc<dyn Clock>>,
}

/// Why a command was not applied. `Rejected` concerns one command; `Failed` ends the batch.
#[derive(Debug)]
pub(crate) enum Stop {
    Rejected(Rejection),
    Failed(StoreError),
}

impl<R: Into<Rejection>> From<R> for Stop {
    fn from(refusal: R) -> Self {
        Self::Rejected(refusal.into())
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// An ended attempt with its result and its last progress.
#[derive(Clone, Debug)]
pub struct EndedAttempt {
    pub attempt: Attempt,
    pub result: Option<JsonText>,
    pub progress: Option<Progress>,
}

/// What decides whether a job may run again.
#[derive(Clone, Debug)]
pub struct Terms {
    pub unique_key: Option<String>,
    pub depends_on: Vec<JobId>,
    /// Whether it belongs to another orchestrator.
    pub is_foreign: bool,
}

/// How much of each limit is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    pub queues: u64,
    /// The jobs that have not ended.
    pub live: u64,
}

/// The rows of one open transaction.
pub trait Rows: TableRows + AccessRows + BatchRows + LimitRows + StateRows {
    fn job(&mut self, id: JobId) -> Result<Option<Lifecycle>, StoreError>;
    fn payload(&mut self, id: JobId) -> Result<Payload, StoreError>;
    /// Replaces the params of a job that was read in this batch.
    fn set_params(&mut self, id: JobId, params: &JsonText) -> Result<(), StoreError>;
    /// Appends a job to the order. Its dependencies follow.
    fn insert(&mut self, job: &Lifecycle, new: &NewJob) -> Result<(), StoreError>;
    /// Writes the new version of a job. Its place in the order does not change.
    fn update(&mut self, before: &Lifecycle, after: &Lifecycle) -> Result<(), StoreError>;
    /// Removes a job and all of its data.
    fn delete(&mut self, job: &Lifecycle) -> Result<(), StoreError>;
    /// Adds an attempt. The job's result, failure and progress become those of this attempt.
    fn add_attempt(&mut self, id: JobId, ended: &EndedAttempt) -> Result<(), StoreError>;
    /// Removes the attempts of a job below this number.
    fn forget_attempts(&mut self, id: JobId, number: u32) -> Result<(), StoreError>;
    /// Returns the result of the latest attempt of a job that has completed, `null` if it has none; `None` if the job is not
    /// kept.
    fn result(&mut self, id: JobId) -> Result<Option<JsonText>, StoreError>;
    /// Keeps the reason why a job failed between two attempts. The job's result and progress are
    /// removed.
    fn set_failure(&mut self, job: &Lifecycle, failure: &Failure) -> Result<(), StoreError>;

    fn terms(&mut self, id: JobId) -> Result<Terms, StoreError>;
    /// Makes a job the holder of a unique key in its queue.
    fn set_unique_key(&mut self, job: &Lifecycle, key: &str) -> Result<(), StoreError>;
    /// Returns the latest job that was given a unique key, if it is still kept.
    fn by_unique_key(&mut self, queue: &Name, key: &str) -> Result<Option<JobId>, StoreError>;
    /// Makes a job wait for others, and no longer for those that it waited for before.
    fn set_dependencies(
        &mut self,
        job: &Lifecycle,
        prerequisites: &[JobId],
    ) -> Result<(), StoreError>;
    /// Returns the first dependencies on the jobs of `on`, at most `limit`: each prerequisite with a job that
    /// waits for it, in the order of `on`, and then in that in which the waiting jobs were enqueued.
    fn dependencies(
        &mut self,
        on: &[JobId],
        limit: usize,
    ) -> Result<Vec<(JobId, JobId)>, StoreError>;
    /// Removes dependencies, each a prerequisite with a job that waited for it.
    fn remove_dependencies(&mut self, settled: &[(JobId, JobId)]) -> Result<(), StoreError>;
    /// Appends cascades to those that ticks continue. Those of the same job stay where they are.
    fn keep_cascades(&mut self, cascades: &[Cascade]) -> Result<(), StoreError>;
    /// Returns the first cascades, at most `limit`, without those that another host continues now.
    fn cascades(&mut self, limit: usize) -> Result<Vec<Cascade>, StoreError>;
    fn end_cascade(&mut self, prerequisite: JobId) -> Result<(), StoreError>;
    /// Returns whether dependents of an ended job are still to be settled.
    fn is_cascading(&mut self, prerequisite: JobId) -> Result<bool, StoreError>;

    /// Returns at most `limit` available jobs of a lane in queues that are not paused, ordered by
    /// priority and then by rank. None has a handler in `except`; if many have, it may stop before it has seen all.
    fn claimable(
        &mut self,
        lane: &Lane,
        except: &BTreeSet<Name>,
        limit: usize,
    ) -> Result<Vec<JobId>, StoreError>;
    /// Returns the jobs that this process could not read. The store leaves them out of those that are claimable or due, that
    /// wait for limits or are listed as running with a key, and out of the next wakeup.
    fn passed_over(&mut self) -> &mut BTreeSet<JobId>;
    /// Returns whether [`Rows::claimable`] has stopped before it had seen all jobs.
    fn claim_goes_on(&self) -> bool {
        false
    }
    /// Returns jobs whose wakeup is at or before `now`, earliest first.
    fn due(&mut self, now: Time, limit: u32) -> Result<Vec<JobId>, StoreError>;
    /// Returns the first running jobs behind a place in the order in which they were enqueued, at most `limit`, each with its
    /// place.
    fn running(&mut self, after: i64, limit: usize) -> Result<Vec<(i64, JobId)>, StoreError>;
    /// Returns when the next job, key of a limit or batch is due after the batch: at the time 0 while there are cascades to go
    /// on with, and at [`AT_ONCE`] while limits have changed. `None` if the store finds it when it commits.
    fn next_wakeup(&mut self) -> Result<Option<Time>, StoreError>;
    /// Sends an effect to the other nodes that can pass it on to the worker of a lease.
    fn notify(&mut self, _lease: &Lease, _job: JobId, _effect: &Effect) -> Result<(), StoreError> {
        Ok(())
    }
    /// Makes sure that a dead node no longer writes. Returns what it is known by from now on, `None` if it is not dead, or
    /// if the store has only one host.
    fn fence(&mut self, _dead: &Dead) -> Result<Option<Dead>, StoreError> {
        Ok(None)
    }
    /// Records that nothing of a fenced node is left to take.
    fn end_take_over(&mut self, _fenced: &Dead) -> Result<(), StoreError> {
        Ok(())
    }
    /// Counts the available jobs for this host's cells in queues that are not paused.
    fn available(&mut self) -> Result<u64, StoreError>;
    fn set_paused(&mut self, queue: &Name, paused: bool) -> Result<(), StoreError>;
    /// Removes a queue, or returns why not.
    fn remove_queue(&mut self, queue: &Name) -> Result<Result<(), QueueRefusal>, StoreError>;
    fn has_queue(&mut self, queue: &Name) -> bool;
    /// Counts what has a capacity limit.
    fn counts(&mut self) -> Counts;

    /// Appends changes and forgets the oldest. Returns the number of the first, if the batch decides it.
    fn keep_changes(&mut self, now: Time, changes: &[Change]) -> Result<Option<u64>, StoreError>;

    /// Returns whether a component is deployed. Each new job asks.
    fn has_component(&mut self, component: &Name) -> Result<bool, StoreError> {
        let range = Range::of(Component::key(component)).marked();
        Ok(self.count_rows(&COMPONENTS, range)? > 0)
    }
    /// Removes the bytes of components that no revision uses.
    fn forget_blobs(&mut self) -> Result<(), StoreError>;
    /// Counts the jobs for a handler in this host's cells that have not ended. A store that has to search for
    /// them stops at [`LIVE_JOBS_COUNTED`].
    fn live_jobs(&mut self, handler: &Name) -> Result<u64, StoreError>;
}

/// How many jobs of a handler are counted at most. Beyond that it is enough to know that there are many.
pub const LIVE_JOBS_COUNTED: u32 = 10_000;

/// A batch that is being applied in a transaction.
pub(crate) struct Batch<'a, R> {
    pub(crate) now: Time,
    pub(crate) bounds: &'a Bounds,
    pub(crate) rows: &'a mut R,
    pub(crate) committed: Committed,
    /// The jobs whose dependents a command settles.
    pub(crate) open: VecDeque<Open>,
    /// How many dependencies the commands may still settle.
    pub(crate) settled_left: usize,
    /// Until when a tick works, or commands settle dependencies and cancel jobs for limits.
    pub(crate) until: Option<Time>,
    /// How many bytes of inputs cascades may still give to jobs.
    pub(crate) inputs_left: usize,
    /// The limits that concern the new jobs.
    pub(crate) concerning: Concerning,
    /// How many jobs that wait for limits may still be moved.
    pub(crate) moves_left: usize,
    /// Whether claims have passed jobs whose keys are held, which the batch could not move.
    pub(crate) claims_go_on: bool,
    /// The requests of the attempt that a command reports as lost.
    pub(crate) lost_requests: Option<Box<Requests>>,
    /// What the batch changes of the numbers of users' batches, which are counted at its end.
    pub(crate) steps: BTreeMap<BatchId, BatchStep>,
    pub(crate) of_users: UsersBatches,
    /// The users' batch of the job whose end is being written.
    pub(crate) inside: Option<BatchId>,
    /// What is known of the end of the job that is being changed, if it has receivers.
    pub(crate) ending: Ending,
    /// Deliveries for jobs that have ended, to be enqueued at the end of the batch.
    pub(crate) deliveries: Vec<NewJob>,
}

/// Applies a batch to the rows of an open transaction. If it fails, the caller rolls back.
pub fn run<R: Rows>(
    rows: &mut R,
    now: Time,
    bounds: &Bounds,
    commands: &[Command],
) -> Result<Committed, StoreError> {
    let mut batch = Batch {
        now,
        bounds,
        rows,
        committed: Committed::default(),
        open: VecDeque::new(),
        settled_left: SETTLED_MAX,
        lost_requests: None,
        until: None,
        inputs_left: INPUT_BYTES_MAX,
        concerning: Concerning::default(),
        moves_left: MOVED_MAX,
        claims_go_on: false,
        steps: BTreeMap::new(),
        of_users: UsersBatches::default(),
        inside: None,
        ending: Ending::default(),
        deliveries: Vec::new(),
    };
    batch.read_keys(commands.iter().flat_map(jobs_to_accept))?;
    for command in commands {
        let changes = batch.committed.changes.len();
        let reply = command.carry_out(&mut batch);
        debug_assert!(
            jobs_in(&batch.committed.changes[changes..]) <= command.bound().jobs + SLICES_MAX,
            "{} changed more jobs than {:?}",
            command.kind(),
            command.bound()
        );
        match reply {
            Ok(reply) => batch.committed.replies.push(Ok(reply)),
            Err(Stop::Rejected(rejection)) => batch.committed.replies.push(Err(rejection)),
            Err(Stop::Failed(error)) => return Err(error),
        }
    }
    batch.end_turn()?;
    let changes = &batch.committed.changes;
    batch.committed.first_change = batch.rows.keep_changes(now, changes)?;
    batch.committed.next_wakeup = batch.rows.next_wakeup()?;
    batch.committed.available = batch.rows.available()?;
    batch.committed.claim_goes_on = batch.claims_go_on || batch.rows.claim_goes_on();
    Ok(batch.committed)
}

/// Returns the jobs that a command enqueues; for a firing, the template of its jobs.
fn jobs_to_accept(command: &Command) -> impl Iterator<Item = &NewJob> {
    let template = command.firing().and_then(|fire| fire.job.as_deref().ok());
    command.new_jobs().iter().chain(template)
}

/// Returns how many jobs have changed.
fn jobs_in(changes: &[Change]) -> usize {
    let jobs: BTreeSet<JobId> = changes.iter().map(|change| change.job).collect();
    jobs.len()
}

impl<R: Rows> Batch<'_, R> {
    pub(crate) fn get(&mut self, id: JobId) -> Result<Lifecycle, Stop> {
        Ok(self.rows.job(id)?.ok_or(JobRefusal::Unknown(id))?)
    }

    pub(crate) fn moved(&mut self, id: JobId, input: &Input<'_>) -> Result<Box<Lifecycle>, Stop> {
        let before = self.get(id)?;
        let after = self.apply(&before, input)?;
        Ok(Box::new(after))
    }

    /// Returns what was read, or `None` if this host cannot read it.
    pub(crate) fn readable<T>(
        &mut self,
        read: Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match read {
            Err(flaw @ StoreError::Unreadable { .. }) => {
                self.committed.unreadable.push(flaw.to_string());
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    /// Returns what was read of a job that no command names, or `None` if this host cannot read it: then the store passes over
    /// the job.
    pub(crate) fn readable_part<T>(
        &mut self,
        id: JobId,
        read: Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        if !matches!(read, Err(StoreError::Unreadable { .. })) {
            return read.map(Some);
        }
        let passed_over = self.rows.passed_over();
        if passed_over.contains(&id) {
            return Ok(None);
        }
        if passed_over.len() == PASSED_OVER_MAX {
            return read.map(Some);
        }
        passed_over.insert(id);
        self.readable(read)
    }

    /// Reads a job that no command names. Returns `None` if it is gone, or if this host cannot read it and the store passes
    /// over it.
    pub(crate) fn readable_job(&mut self, id: JobId) -> Result<Option<Lifecycle>, StoreError> {
        let job = self.rows.job(id);
        Ok(self.readable_part(id, job)?.flatten())
    }

    /// Reads a row that is due. One that this host cannot read is due again later: another host may read it.
    pub(crate) fn read_due<T: Record>(&mut self, row: Row) -> Result<Option<T>, StoreError> {
        let key = row[..T::TABLE.key].to_vec();
        let read = self.readable(T::from_row(row))?;
        if let (None, Some(time)) = (&read, T::TABLE.time) {
            self.rows.get_rows(T::TABLE, vec![key.clone()])?;
            let later = self.now.plus_ms(UNREADABLE_PAUSE_MS);
            self.rows
                .update_row(T::TABLE, key, vec![(time, later.into())])?;
        }
        Ok(read)
    }

    /// Reports a job's change.
    pub(crate) fn record_change(&mut self, before: Option<&Lifecycle>, after: Option<&Lifecycle>) {
        let Some(job) = after.or(before) else { return };
        let was_discarded = before.is_some_and(|job| job.state == State::Discarded);
        if let Some(after) = after.filter(|job| job.state == State::Discarded && !was_discarded) {
            self.committed.discards.push(Discard {
                job: after.id,
                queue: after.queue.clone(),
                handler: address(after.executor.as_ref(), &after.handler).into_owned(),
                failure: after.failure,
            });
        }
        self.committed.changes.push(Change {
            job: job.id,
            handler: job.handler.clone(),
            executor: job.executor.clone(),
            queue: job.queue.clone(),
            from: before.map(|job| job.state),
            to: after.map(|job| job.state),
            attempt: job.attempt,
        });
    }

    /// Passes on the effects that the dispatcher must carry out, and writes those that belong in
    /// the store. Returns whether the job must be purged.
    pub(crate) fn keep(
        &mut self,
        before: &Lifecycle,
        after: &Lifecycle,
        effects: Vec<Effect>,
    ) -> Result<bool, StoreError> {
        let mut purged = false;
        self.note_failure(after, &effects);
        for effect in effects {
            match effect {
                Effect::Stop { .. } | Effect::Revoke { .. } => {
                    if let Some(lease) = &before.lease {
                        self.rows.notify(lease, after.id, &effect)?;
                    }
                    self.committed.effects.push((after.id, effect));
                }
                Effect::AttemptLost { failure } => self.attempt_lost(before, after, failure)?,
                Effect::Failed { failure } => self.rows.set_failure(after, &failure)?,
                Effect::Purge => purged = true,
            }
        }
        Ok(purged)
    }

    /// Applies one input to one job, writes the result, and settles the jobs that wait for it.
    pub(crate) fn apply(
        &mut self,
        before: &Lifecycle,
        input: &Input<'_>,
    ) -> Result<Lifecycle, Stop> {
        let after = self.step(before, input)?;
        self.cascade_after(before, &after)?;
        Ok(after)
    }

    /// Settles the jobs that wait for one if it has ended.
    pub(crate) fn cascade_after(
        &mut self,
        before: &Lifecycle,
        after: &Lifecycle,
    ) -> Result<(), Stop> {
        if after.state.is_terminal() && !before.state.is_terminal() {
            self.cascade(after)?;
        }
        Ok(())
    }

    pub(crate) fn step(
        &mut self,
        before: &Lifecycle,
        input: &Input<'_>,
    ) -> Result<Lifecycle, Stop> {
        let mut after = before.clone();
        let effects = after.apply(self.now, input)?;
        let freed = self.pass_limits(Some(before), &mut after)?;
        debug_assert_eq!(invariants::check(&after), Ok(()), "{input:?}");
        if self.keep(before, &after, effects)? {
            self.give_up_waiting(before)?;
            self.rows.delete(before)?;
            self.record_change(Some(before), None);
            return Ok(after);
        }
        self.make_deliveries(before, &mut after)?;
        self.count_owned(before, &after)?;
        if *before != after {
            self.rows.update(before, &after)?;
        }
        if before.state != after.state {
            self.count_in_batch(Some(before.state), &after);
            self.record_change(Some(before), Some(&after));
        }
        for KeyOfJob { key, .. } in freed {
            self.serve(&key)?;
        }
        Ok(after)
    }
}
