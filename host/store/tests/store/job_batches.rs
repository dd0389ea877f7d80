//! Batches of jobs: their numbers, their callbacks and their end, on each engine.

use host_core::id::BatchId;
use host_core::job::{Membership, NewJob, State};
use host_core::query::JobFilter;
use host_core::time::Time;
use host_core::writes::Writes;
use host_engine::batch::{
    BATCH_JOBS_MAX, BatchCounts, BatchPlan, BatchRefusal, CancelBatch, CloseBatch,
    FAILED_NAMED_MAX, JobBatch, NewBatch, OPEN_MS_MAX, On,
};
use host_engine::job::{Enqueue, JobRefusal, Retry, Tick, Ticked};
use host_engine::lease::Complete;
use host_engine::limit::{Limit, RemoveLimit, WhenFull};
use host_engine::queue::SetPaused;
use host_engine::table::Range;
use host_engine::{Command, Rejection, Reply, Store, lease};
use uuid::Uuid;

use crate::cases::{check, state};
use crate::jobs::{
    NOW, ask, claim, commit, complete, enqueue, failed, id, job, read, returned, unique,
};
use crate::limit_keys::{of_all, set_limit};

/// The first of the numbers of callbacks.
const CALLBACKS: u128 = 1 << 40;

/// How long batches are kept, in milliseconds.
const KEPT_MS: u64 = 5_000;

pub(crate) fn batch_id(n: u128) -> BatchId {
    BatchId(Uuid::from_u128(
        0x0199_0000_0000_7000_9000_0000_0000_0000 + n,
    ))
}

/// The number of a callback's job.
pub(crate) const fn callback(batch: u128, on: On) -> u128 {
    CALLBACKS + 4 * batch + on as u128
}

/// A job of a batch.
pub(crate) fn within(batch: u128, mut new: NewJob) -> NewJob {
    new.batch = Some(Membership::Joins(batch_id(batch)));
    new
}

/// Makes a batch with all callbacks.
pub(crate) fn new_batch(n: u128, is_open: bool, jobs: Vec<NewJob>) -> Command {
    let callbacks = [On::FirstFailure, On::Success, On::End].map(|on| {
        let mut new = job(callback(n, on));
        new.queue = "callbacks".parse().unwrap();
        (on, new)
    });
    Command::from(NewBatch {
        id: batch_id(n),
        plan: BatchPlan {
            name: None,
            callbacks: callbacks.to_vec(),
            notify: None,
            origin: None,
            created_at: NOW,
            kept_ms: KEPT_MS,
        },
        is_open,
        jobs: jobs.into_iter().map(|job| within(n, job)).collect(),
    })
}

pub(crate) fn close(n: u128) -> Command {
    Command::from(CloseBatch { batch: batch_id(n) })
}

pub(crate) fn cancel(n: u128) -> Command {
    let (batch, reason) = (batch_id(n), Some("wrong input".to_owned()));
    Command::from(CancelBatch { batch, reason })
}

pub(crate) fn batch(store: &dyn Store, n: u128) -> Option<JobBatch> {
    store
        .reader()
        .unwrap()
        .get::<JobBatch>(batch_id(n))
        .unwrap()
}

fn counts(store: &dyn Store, n: u128) -> BatchCounts {
    batch(store, n).unwrap().progress.counts
}

/// Returns which callbacks of a batch were enqueued.
fn fired(store: &dyn Store, n: u128) -> Vec<On> {
    let reader = store.reader().unwrap();
    let fired: Vec<On> = [On::FirstFailure, On::Success, On::End]
        .into_iter()
        .filter(|on| reader.state(id(callback(n, *on))).unwrap().is_some())
        .collect();
    if let Some(batch) = batch(store, n) {
        let mut recorded = batch.progress.fired;
        recorded.sort_unstable();
        assert_eq!(recorded, fired);
    }
    fired
}

fn params(store: &dyn Store, n: u128, on: On) -> serde_json::Value {
    let job = store.reader().unwrap().job(id(callback(n, on))).unwrap();
    serde_json::from_str(job.unwrap().payload.params.as_str()).unwrap()
}

/// Claims the jobs `1..=n`, each with a lease of its number, and lets the callbacks wait.
fn start(store: &mut dyn Store, n: u128) {
    let queue = "callbacks".parse().unwrap();
    let pause = Command::from(SetPaused {
        queue,
        paused: true,
    });
    commit(store, NOW, vec![pause, claim(1..=n, false)]);
}

fn tick(store: &mut dyn Store, now: Time) {
    let mut jobs = 1;
    while jobs > 0 {
        let reply = ask(store, now, Command::from(Tick { limit: 7 }));
        let Ok(Reply::Ticked(Ticked { jobs: handled })) = reply else {
            panic!("{reply:?}")
        };
        jobs = handled;
    }
}

#[test]
fn callbacks_are_enqueued_in_the_commit_that_ends_the_last_job() {
    check(|store| {
        ask(store, NOW, new_batch(1, false, (1..=3).map(job).collect())).unwrap();
        start(store, 3);
        let two = vec![complete(1, 1, returned()), complete(2, 2, returned())];
        commit(store, NOW, two);
        assert_eq!((fired(store, 1), counts(store, 1).not_ended()), (vec![], 1));
        let committed = commit(store, NOW, vec![complete(3, 3, returned())]);
        let new = committed.changes.iter().filter(|it| it.from.is_none());
        assert_eq!(new.count(), 2);
        assert_eq!(fired(store, 1), [On::Success, On::End]);
        let expected = serde_json::json!({
            "batch": batch_id(1).to_string(), "callback": "on_success", "failed": [],
            "counts": {"jobs": 3, "not_ended": 0, "completed": 3, "discarded": 0, "cancelled": 0}
        });
        assert_eq!(params(store, 1, On::Success), expected);
        read(&*store.reader().unwrap());
    });
}

#[test]
fn a_callback_names_at_most_so_many_jobs_that_failed() {
    check(|store| {
        let named = FAILED_NAMED_MAX as u128;
        let jobs = named + 1;
        ask(
            store,
            NOW,
            new_batch(1, false, (1..=jobs).map(job).collect()),
        )
        .unwrap();
        start(store, jobs);
        let ends = (1..=jobs).map(|n| complete(n, n, failed(false)));
        commit(store, NOW, ends.collect());
        let params = params(store, 1, On::End);
        assert_eq!(params["counts"]["discarded"], FAILED_NAMED_MAX + 1);
        let first = (1..=named).map(|n| id(n).to_string());
        assert_eq!(params["failed"], first.collect::<serde_json::Value>());
    });
}

#[test]
fn a_failure_calls_back_at_once_and_names_the_jobs() {
    check(|store| {
        ask(store, NOW, new_batch(1, false, (1..=3).map(job).collect())).unwrap();
        start(store, 3);
        let first = vec![complete(2, 2, failed(false)), complete(1, 1, returned())];
        commit(store, NOW, first);
        assert_eq!(fired(store, 1), [On::FirstFailure]);
        let failed_one = serde_json::json!([id(2).to_string()]);
        assert_eq!(params(store, 1, On::FirstFailure)["failed"], failed_one);
        ask(store, NOW, complete(3, 3, failed(false))).unwrap();
        assert_eq!(fired(store, 1), [On::FirstFailure, On::End]);
        let both = serde_json::json!([id(2).to_string(), id(3).to_string()]);
        assert_eq!(params(store, 1, On::End)["failed"], both);
        assert_eq!(params(store, 1, On::End)["counts"]["discarded"], 2);
    });
}

#[test]
fn an_empty_batch_fires_when_it_is_closed() {
    check(|store| {
        ask(store, NOW, new_batch(1, false, vec![])).unwrap();
        assert_eq!(fired(store, 1), [On::Success, On::End]);
        ask(store, NOW, new_batch(2, true, vec![])).unwrap();
        assert_eq!(fired(store, 2), []);
        commit(store, NOW, vec![close(2), close(2)]);
        assert_eq!(fired(store, 2), [On::Success, On::End]);
        let unknown = Err(Rejection::Batch(BatchRefusal::Unknown(batch_id(3))));
        assert_eq!(ask(store, NOW, close(3)), unknown);
    });
}

#[test]
fn a_turn_enqueues_a_number_of_callbacks_and_ticks_go_on() {
    check(|store| {
        let batches = (1..=1_100).map(|n| new_batch(n, false, vec![]));
        let committed = commit(store, NOW, batches.collect());
        let enqueued = committed.changes.len();
        assert!((2_000..2_100).contains(&enqueued), "{enqueued}");
        tick(store, NOW);
        for n in [1, 1_000, 1_100] {
            assert_eq!(fired(store, n), [On::Success, On::End]);
        }
    });
}

#[test]
fn an_open_batch_takes_jobs_until_it_is_closed() {
    check(|store| {
        ask(store, NOW, new_batch(1, true, vec![job(1)])).unwrap();
        start(store, 1);
        ask(store, NOW, complete(1, 1, returned())).unwrap();
        assert_eq!(fired(store, 1), []);
        enqueue(store, vec![within(1, job(2)), job(3)]);
        ask(store, NOW, close(1)).unwrap();
        let late = Command::from(Enqueue(vec![within(1, job(4))]));
        let refused = Err(Rejection::Batch(BatchRefusal::Closed(batch_id(1))));
        assert_eq!(ask(store, NOW, late), refused);
        let missing = Command::from(Enqueue(vec![within(9, job(4))]));
        let unknown = Err(Rejection::Batch(BatchRefusal::Unknown(batch_id(9))));
        assert_eq!(ask(store, NOW, missing), unknown);
        commit(store, NOW, vec![claim([2, 3], false)]);
        ask(store, NOW, complete(2, 2, returned())).unwrap();
        assert_eq!(fired(store, 1), [On::Success, On::End]);
        let filter = JobFilter {
            batch: Some(batch_id(1)),
            ..JobFilter::default()
        };
        let listed: Vec<_> = store
            .reader()
            .unwrap()
            .jobs(&filter, None, 10)
            .unwrap()
            .items
            .iter()
            .map(|job| job.lifecycle.id)
            .collect();
        assert_eq!(listed, [id(2), id(1)]);
    });
}

#[test]
fn a_job_adds_to_its_batch_with_its_end() {
    check(|store| {
        ask(store, NOW, new_batch(1, false, vec![job(1)])).unwrap();
        start(store, 1);
        let more = |n: u128, of: u128, jobs: Vec<NewJob>| {
            let mut end = complete(n, n, returned());
            if let Command::Lease(lease::Command::Complete(Complete { writes, .. })) = &mut end {
                *writes = Some(Box::new(Writes {
                    jobs: jobs.into_iter().map(|job| within(of, job)).collect(),
                    state: Vec::new(),
                    ..Writes::default()
                }));
            }
            end
        };
        ask(store, NOW, more(1, 1, vec![job(2)])).unwrap();
        assert_eq!((fired(store, 1), counts(store, 1).not_ended()), (vec![], 1));
        commit(store, NOW, vec![claim([2], false)]);
        ask(store, NOW, more(2, 1, vec![])).unwrap();
        assert_eq!(fired(store, 1), [On::Success, On::End]);
        // No other principal can.
        ask(store, NOW, new_batch(2, false, vec![job(5)])).unwrap();
        enqueue(store, vec![job(6)]);
        commit(store, NOW, vec![claim([5, 6], false)]);
        ask(store, NOW, more(6, 2, vec![job(7)])).unwrap();
        assert_eq!(store.reader().unwrap().state(id(7)).unwrap(), None);
    });
}

#[test]
fn a_cancelled_batch_ends_in_slices() {
    check(|store| {
        ask(store, NOW, new_batch(1, true, (1..=20).map(job).collect())).unwrap();
        start(store, 1);
        ask(store, NOW, cancel(1)).unwrap();
        let late = Command::from(Enqueue(vec![within(1, job(30))]));
        let refused = Err(Rejection::Batch(BatchRefusal::Closed(batch_id(1))));
        assert_eq!(ask(store, NOW, late), refused);
        let committed = commit(store, NOW, vec![Command::from(Tick { limit: 7 })]);
        assert_eq!(committed.next_wakeup, Some(Time(1)), "it continues");
        assert!(counts(store, 1).cancelled < 19);
        tick(store, NOW);
        assert_eq!(counts(store, 1).cancelled, 19);
        assert_eq!(state(store, 1), State::Running, "its handler may stop");
        ask(store, NOW, complete(1, 1, returned())).unwrap();
        assert_eq!(fired(store, 1), [On::End]);
        let job = store.reader().unwrap().job(id(20)).unwrap().unwrap();
        let reason = job.lifecycle.cancel.unwrap().reason;
        assert_eq!(reason.as_deref(), Some("wrong input"));
    });
}

#[test]
fn a_retry_is_counted_and_calls_nobody_back() {
    check(|store| {
        let retry = |n| {
            Command::from(Retry {
                job: id(n),
                force: false,
            })
        };
        ask(store, NOW, new_batch(1, false, vec![job(1), job(2)])).unwrap();
        start(store, 2);
        ask(store, NOW, complete(1, 1, failed(false))).unwrap();
        ask(store, NOW, retry(1)).unwrap();
        ask(store, NOW, complete(2, 2, returned())).unwrap();
        assert_eq!(fired(store, 1), [On::FirstFailure], "it waits again");
        commit(store, NOW, vec![claim([3], false)]);
        ask(store, NOW, complete(1, 3, failed(false))).unwrap();
        assert_eq!(fired(store, 1), [On::FirstFailure, On::End]);
        ask(store, NOW, retry(1)).unwrap();
        commit(store, NOW, vec![claim([4], false)]);
        assert_eq!(counts(store, 1).not_ended(), 1);
        let committed = commit(store, NOW, vec![complete(1, 4, returned())]);
        assert_eq!(committed.changes.len(), 1);
        assert_eq!(counts(store, 1).completed, 2);
    });
}

#[test]
fn a_batch_that_has_ended_is_forgotten_and_one_that_is_left_open_is_closed() {
    check(|store| {
        ask(store, NOW, new_batch(1, true, vec![])).unwrap();
        let closed = NOW.plus_ms(OPEN_MS_MAX);
        tick(store, Time(closed.0 - 1));
        assert_eq!(fired(store, 1), []);
        tick(store, closed);
        assert_eq!(fired(store, 1), [On::Success, On::End]);
        tick(store, closed.plus_ms(KEPT_MS - 1));
        assert!(batch(store, 1).is_some());
        tick(store, closed.plus_ms(KEPT_MS));
        assert!(batch(store, 1).is_none());
        let reader = store.reader().unwrap();
        assert_eq!(
            reader
                .count_records::<JobBatch>(Range::all().marked())
                .unwrap(),
            0
        );
    });
}

#[test]
fn a_callback_that_is_refused_is_enqueued_later() {
    check(|store| {
        let full = Limit {
            when_full: WhenFull::Refuse,
            ..of_all(1)
        };
        ask(store, NOW, new_batch(1, false, vec![job(1)])).unwrap();
        start(store, 1);
        ask(store, NOW, set_limit(full)).unwrap();
        enqueue(store, vec![job(2)]);
        ask(store, NOW, complete(1, 1, returned())).unwrap();
        assert_eq!(fired(store, 1), []);
        let progress = batch(store, 1).unwrap().progress;
        assert_eq!(progress.due, [On::Success, On::End]);
        assert!(progress.refused.unwrap().contains("is full"));
        let remove = Command::from(RemoveLimit {
            limit: "all".parse().unwrap(),
        });
        ask(store, NOW, remove).unwrap();
        tick(store, NOW);
        assert_eq!(fired(store, 1), [], "not yet");
        tick(store, progress.again_at.unwrap());
        assert_eq!(fired(store, 1), [On::Success, On::End]);
    });
}

#[test]
fn jobs_that_exist_already_are_not_in_the_batch_and_it_has_a_limit() {
    check(|store| {
        let scope = host_core::job::UniqueScope::Active;
        let keyed = |n| NewJob {
            unique_key: Some(unique("a", scope)),
            ..job(n)
        };
        enqueue(store, vec![keyed(1)]);
        ask(store, NOW, new_batch(1, false, vec![keyed(2), job(3)])).unwrap();
        assert_eq!(counts(store, 1).jobs, 1);
        // All or nothing.
        let mut bad = job(5);
        bad.depends_on = vec![id(99)];
        let refused = ask(store, NOW, new_batch(2, true, vec![job(4), bad]));
        assert_eq!(
            refused,
            Err(Rejection::Job(JobRefusal::UnknownPrerequisite(id(99))))
        );
        assert!(batch(store, 2).is_none());
        assert_eq!(BATCH_JOBS_MAX, 1_000_000);
        read(&*store.reader().unwrap());
    });
}
