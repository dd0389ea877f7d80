//! Deliveries of webhooks: each is in the commit of the end that it reports, and nothing refuses it.

use std::sync::Arc;

use host_core::job::{NewJob, State};
use host_core::notify::{BATCH_EVENTS, Event, JOB_EVENTS, Notify};
use host_core::policy::Retention;
use host_core::query::JobDetail;
use host_engine::batch::{BatchPlan, JobBatch, NewBatch, On};
use host_engine::job::{Cancel, Enqueue, JobRefusal, Retry};
use host_engine::limit::{Limit, WhenFull};
use host_engine::webhook::{Delivery, WEBHOOKS};
use host_engine::{Capacity, Command, Rejection, Store};
use serde_json::Value;

use crate::cases::{check, state};
use crate::job_batches::{batch_id, within};
use crate::jobs::{NOW, ask, claim, commit, complete, enqueue, failed, id, job, read, returned};
use crate::limit_keys::{of_all, set_limit};
use crate::limits::SlowClock;

pub(crate) fn notify(events: &[Event]) -> Notify {
    Notify {
        url: "https://a.example/hook".to_owned(),
        secret: "hooks".to_owned(),
        events: events.to_vec(),
    }
}

fn notifying(n: u128) -> NewJob {
    NewJob {
        notify: vec![notify(&JOB_EVENTS)],
        ..job(n)
    }
}

/// Returns the deliveries, those of the earliest commit first.
fn deliveries(store: &dyn Store) -> Vec<JobDetail> {
    let everything = read(&*store.reader().unwrap());
    let mut all: Vec<_> = everything
        .jobs
        .into_iter()
        .map(|(detail, _)| detail)
        .filter(|it| it.lifecycle.queue.as_str() == WEBHOOKS)
        .collect();
    all.sort_by_key(|it| it.lifecycle.id);
    all
}

fn messages(store: &dyn Store) -> Vec<Value> {
    let read = |detail: &JobDetail| {
        let params: Delivery = serde_json::from_str(detail.payload.params.as_str()).unwrap();
        assert_eq!(params.url, notify(&[]).url);
        serde_json::from_str(params.message.get()).unwrap()
    };
    deliveries(store).iter().map(read).collect()
}

fn types(store: &dyn Store) -> Vec<String> {
    let of = |message: &Value| message["type"].as_str().unwrap().to_owned();
    messages(store).iter().map(of).collect()
}

#[test]
fn each_end_is_notified_in_its_commit() {
    check(|store| {
        let mut waits = notifying(4);
        waits.depends_on = vec![id(2)];
        enqueue(
            store,
            vec![notifying(1), notifying(2), notifying(3), waits, job(5)],
        );
        commit(store, NOW, vec![claim(1..=2, false)]);
        assert_eq!(types(store), Vec::<String>::new());
        let ends = vec![
            complete(1, 1, returned()),
            complete(2, 2, failed(false)),
            Command::from(Cancel {
                job: id(3),
                reason: None,
                grace_ms: None,
            }),
        ];
        let committed = commit(store, NOW, ends);
        let new = committed.changes.iter().filter(|it| it.from.is_none());
        assert_eq!(new.count(), 4, "{:?}", committed.changes);
        let mut types = types(store);
        types.sort_unstable();
        let expected = [
            "job.cancelled",
            "job.completed",
            "job.discarded",
            "job.discarded",
        ];
        assert_eq!(types, expected, "the last waited for one that failed");
        let of = |kind: &str| {
            let all = messages(store).into_iter();
            all.filter(|it| it["type"] == kind).collect::<Vec<_>>()
        };
        assert_eq!(
            of("job.completed")[0]["data"]["result"],
            serde_json::json!([1, 2])
        );
        let discarded = of("job.discarded");
        let reasons: Vec<_> = discarded.iter().map(|it| &it["data"]["failure"]).collect();
        assert!(
            reasons.iter().all(|it| it["message"].is_string()),
            "{reasons:?}"
        );
    });
}

#[test]
fn an_attempt_that_is_followed_by_another_is_not_notified() {
    check(|store| {
        enqueue(store, vec![notifying(1)]);
        commit(store, NOW, vec![claim([1], false)]);
        commit(store, NOW, vec![complete(1, 1, failed(true))]);
        assert_eq!(state(store, 1), State::Retryable);
        assert_eq!(deliveries(store).len(), 0);
    });
}

#[test]
fn a_job_that_ends_again_is_notified_again() {
    check(|store| {
        enqueue(store, vec![notifying(1)]);
        let cancel = || {
            Command::from(Cancel {
                job: id(1),
                reason: None,
                grace_ms: None,
            })
        };
        let retry = Command::from(Retry {
            job: id(1),
            force: false,
        });
        commit(store, NOW, vec![cancel()]);
        commit(store, NOW, vec![retry]);
        // Ids sort by time.
        commit(store, NOW.plus_ms(1), vec![cancel()]);
        assert_eq!(types(store), ["job.cancelled", "job.cancelled"]);
        let sent = deliveries(store);
        assert_eq!(sent[1].depends_on, [sent[0].lifecycle.id], "in order");
        assert_eq!(sent[1].lifecycle.state, State::Pending);
        // It continues even if the first was cancelled.
        let first = Command::from(Cancel {
            job: sent[0].lifecycle.id,
            reason: None,
            grace_ms: None,
        });
        commit(store, NOW.plus_ms(2), vec![first]);
        let sent = deliveries(store);
        assert_eq!(sent[1].lifecycle.state, State::Available);
    });
}

#[test]
fn deliveries_are_kept_as_long_as_the_host_says() {
    check(|store| {
        let kept = Retention::equal(5_000);
        let capacity = Capacity {
            deliveries: kept,
            ..Capacity::default()
        };
        store.limit(capacity, Arc::new(SlowClock::default()));
        enqueue(store, vec![notifying(1)]);
        commit(store, NOW, vec![claim([1], false)]);
        commit(store, NOW, vec![complete(1, 1, returned())]);
        let delivery = deliveries(store).remove(0);
        assert_eq!(delivery.lifecycle.policy.retention, kept);
    });
}

#[test]
fn nothing_refuses_a_delivery() {
    check(|store| {
        let capacity = Capacity {
            jobs_max: 1,
            queues_max: 1,
            ..Capacity::default()
        };
        store.limit(capacity, Arc::new(SlowClock::default()));
        enqueue(store, vec![notifying(1)]);
        for (name, when_full) in [
            ("refuses", WhenFull::Refuse),
            ("replaces", WhenFull::ReplaceWaiting),
        ] {
            let name = name.parse().unwrap();
            let limit = Limit {
                name,
                when_full,
                ..of_all(1)
            };
            ask(store, NOW, set_limit(limit)).unwrap();
        }
        let refused = ask(store, NOW, Command::from(Enqueue(vec![job(2)])));
        assert!(
            matches!(
                refused,
                Err(Rejection::Job(JobRefusal::TooManyWaiting { .. }))
            ),
            "{refused:?}"
        );
        commit(store, NOW, vec![claim([1], false)]);
        commit(store, NOW, vec![complete(1, 1, returned())]);
        assert_eq!(types(store), ["job.completed"]);
        let sent = deliveries(store);
        assert_eq!(sent[0].lifecycle.state, State::Available);
    });
}

#[test]
fn a_batch_tells_each_of_its_events_once() {
    check(|store| {
        let batch = Command::from(NewBatch {
            id: batch_id(1),
            plan: BatchPlan {
                name: None,
                callbacks: Vec::new(),
                notify: Some(notify(&BATCH_EVENTS)),
                origin: None,
                created_at: NOW,
                kept_ms: 5_000,
            },
            is_open: false,
            jobs: (1..=2).map(|n| within(1, job(n))).collect(),
        });
        ask(store, NOW, batch).unwrap();
        commit(store, NOW, vec![claim(1..=2, false)]);
        commit(store, NOW, vec![complete(1, 1, failed(false))]);
        assert_eq!(types(store), ["batch.first_failure"]);
        commit(store, NOW.plus_ms(1), vec![complete(2, 2, returned())]);
        assert_eq!(types(store), ["batch.first_failure", "batch.end"]);
        let sent = messages(store);
        assert_eq!(sent[1]["data"]["counts"]["discarded"], 1);
        let batch = store
            .reader()
            .unwrap()
            .get::<JobBatch>(batch_id(1))
            .unwrap();
        assert_eq!(
            batch.unwrap().progress.notified,
            [On::FirstFailure, On::End]
        );
    });
}
