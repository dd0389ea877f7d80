//! The conformance suite: cases that every engine must pass.

use host_core::failure::{Failure, FailureKind};
use host_core::id::JobId;
use host_core::job::{State, UniqueScope};
use host_core::lease::Fence;
use host_core::name::Name;
use host_core::outcome::Outcome;
use host_core::policy::{Policy, Retention};
use host_core::query::JobFilter;
use host_core::time::Time;
use host_core::transition::{Effect, Loss};
use host_engine::component::{ComponentRefusal, RemoveComponent};
use host_engine::job::{Cancel, Enqueue, JobRefusal, Retry, Tick};
use host_engine::lease::{Claim, Claimed, LeaseRefusal, Lose};
use host_engine::queue::SetPaused;
use host_engine::{Command, Rejection, Reply, Store, lease};
use host_store::sqlite::SqliteStore;
use host_testing::store::MemoryStore;
use tempfile::TempDir;

use crate::jobs::{
    NODE, NOW, ask, claim, claim_in, claimed, commit, complete, enqueue, executor, failed, foreign,
    id, job, job_for, lease, read, recover, returned, revision, unique,
};

/// Runs a case on each engine, on PostgreSQL unless `HOST_TEST_STORE` is `sqlite`.
pub(crate) fn check(case: impl Fn(&mut dyn Store)) {
    case(&mut MemoryStore::default());
    let folder = TempDir::new().unwrap();
    case(&mut SqliteStore::open(&folder.path().join("host.db")).unwrap());
    crate::postgres::check(case);
}

pub(crate) fn state(store: &dyn Store, n: u128) -> State {
    store.reader().unwrap().state(id(n)).unwrap().unwrap()
}

#[test]
fn a_job_is_enqueued_claimed_and_completed_in_single_batches() {
    check(|store| {
        let enqueue = Command::from(Enqueue(vec![job(1)]));
        let first = commit(store, NOW, vec![enqueue, claim([1, 2], false)]);
        assert_eq!(first.replies.len(), 2);
        let Ok(Reply::Claimed(jobs)) = &first.replies[1] else {
            panic!("{first:?}")
        };
        assert_eq!(jobs.len(), 1, "only the job of the same batch");
        assert_eq!(jobs[0].payload, job(1).payload);
        assert_eq!(first.available, 0);
        ask(store, NOW.plus_ms(7), complete(1, 1, returned())).unwrap();
        let everything = read(&*store.reader().unwrap());
        let (detail, attempts) = &everything.jobs[0];
        assert_eq!(detail.lifecycle.state, State::Completed);
        assert_eq!(detail.lifecycle.ran_ms, 7);
        assert_eq!(detail.result.as_ref().unwrap().as_str(), "[1,2]");
        assert_eq!(attempts.len(), 1);
        assert_eq!((attempts[0].meter.fuel, attempts[0].number), (7, 1));
    });
}

#[test]
fn the_most_urgent_and_then_the_oldest_comes_first() {
    check(|store| {
        let mut urgent = job(3);
        urgent.priority = 0;
        let mut other_queue = job(2);
        other_queue.queue = "other".parse().unwrap();
        enqueue(store, vec![job(1), other_queue, urgent, job(4)]);
        let order: Vec<_> = claimed(store, NOW, claim([1, 2, 3], false))
            .iter()
            .map(|claimed| claimed.lifecycle.id)
            .collect();
        assert_eq!(order, [id(3), id(1), id(2)]);
    });
}

#[test]
fn paused_queues_keep_their_jobs() {
    check(|store| {
        let queue = job(1).queue;
        let set = |paused| {
            Command::from(SetPaused {
                queue: queue.clone(),
                paused,
            })
        };
        ask(store, NOW, set(true)).unwrap();
        enqueue(store, vec![job(1)]);
        assert!(claimed(store, NOW, claim([1], false)).is_empty());
        ask(store, NOW, set(false)).unwrap();
        assert_eq!(claimed(store, NOW, claim([1], false)).len(), 1);
    });
}

#[test]
fn dependents_wait_for_all_and_fall_with_one() {
    check(|store| {
        let after = |n, prerequisites: &[u128]| {
            let mut dependent = job(n);
            dependent.depends_on = prerequisites.iter().map(|n| id(*n)).collect();
            dependent
        };
        enqueue(
            store,
            vec![after(3, &[1, 2]), job(1), job(2), after(4, &[3])],
        );
        assert_eq!(state(store, 3), State::Pending);
        assert_eq!(claimed(store, NOW, claim([1, 2, 3], false)).len(), 2);
        ask(store, NOW, complete(1, 1, returned())).unwrap();
        assert_eq!(state(store, 3), State::Pending);
        ask(store, NOW, complete(2, 2, returned())).unwrap();
        assert_eq!(state(store, 3), State::Available);
        enqueue(store, vec![after(5, &[1])]);
        assert_eq!(
            state(store, 5),
            State::Available,
            "nothing waits for a completed job"
        );
        let cancel = Command::from(Cancel {
            job: id(3),
            reason: None,
            grace_ms: None,
        });
        ask(store, NOW, cancel).unwrap();
        assert_eq!(state(store, 4), State::Discarded);
        enqueue(store, vec![after(6, &[4]), after(7, &[6])]);
        assert_eq!(
            (state(store, 6), state(store, 7)),
            (State::Discarded, State::Discarded)
        );
        let detail = store.reader().unwrap().job(id(7)).unwrap().unwrap();
        let failure = detail.failure.unwrap();
        assert_eq!(failure.kind, FailureKind::PrerequisiteFailed);
        assert_eq!(failure.message, format!("prerequisite_failed: {}", id(6)));
    });
}

#[test]
fn prerequisites_that_share_a_key_count_once() {
    check(|store| {
        let mut keyed = [job(1), job(2), job(3)];
        for job in &mut keyed {
            job.unique_key = Some(unique("k", UniqueScope::Active));
        }
        let [first, second, mut third] = keyed;
        third.unique_key = Some(unique("other", UniqueScope::Active));
        third.depends_on = vec![id(1), id(2)];
        enqueue(store, vec![first, second, third]);
        claimed(store, NOW, claim([1], false));
        ask(store, NOW, complete(1, 1, returned())).unwrap();
        assert_eq!(state(store, 3), State::Available);
    });
}

#[test]
fn jobs_that_wait_for_each_other_through_a_key_are_refused() {
    check(|store| {
        let (mut first, mut second, mut third) = (job(1), job(2), job(3));
        first.unique_key = Some(unique("k", UniqueScope::Active));
        third.unique_key = first.unique_key.clone();
        (first.depends_on, second.depends_on) = (vec![id(2)], vec![id(3)]);
        let all = Command::from(Enqueue(vec![first, second, third]));
        let refused = Rejection::Job(JobRefusal::DependencyCycle(vec![0, 1, 0]));
        assert_eq!(ask(store, NOW, all), Err(refused));
        assert_eq!(store.reader().unwrap().job(id(1)).unwrap(), None);
    });
}

#[test]
fn an_enqueue_is_all_or_nothing_and_disturbs_no_neighbour() {
    check(|store| {
        let mut orphan = job(2);
        orphan.depends_on = vec![id(99)];
        let committed = commit(
            store,
            NOW,
            vec![
                Command::from(Enqueue(vec![job(1), orphan])),
                Command::from(Enqueue(vec![job(3)])),
            ],
        );
        assert_eq!(
            committed.replies[0],
            Err(Rejection::Job(JobRefusal::UnknownPrerequisite(id(99))))
        );
        assert!(committed.replies[1].is_ok());
        assert_eq!(store.reader().unwrap().job(id(1)).unwrap(), None);
        assert_eq!(state(store, 3), State::Available);
    });
}

#[test]
fn stale_messages_change_nothing() {
    check(|store| {
        enqueue(store, vec![job(1)]);
        claimed(store, NOW, claim([1], false));
        let lose = Command::from(Lose {
            job: id(1),
            fence: Fence::Lease(lease(1)),
            loss: Loss::Innocent,
            executor: "cell-1".to_owned(),
            requests: None,
        });
        ask(store, NOW, lose).unwrap();
        claimed(store, NOW, claim([2], false));
        let before = read(&*store.reader().unwrap());
        let late = ask(store, NOW, complete(1, 1, returned()));
        assert_eq!(late, Err(Rejection::Lease(LeaseRefusal::Stale)));
        assert_eq!(read(&*store.reader().unwrap()), before);
        ask(store, NOW, complete(1, 2, returned())).unwrap();
        let again = ask(store, NOW, complete(1, 2, failed(true)));
        assert_eq!(again, Err(Rejection::Lease(LeaseRefusal::Stale)));
        assert_eq!(state(store, 1), State::Completed);
    });
}

#[test]
fn what_did_not_begin_leaves_no_attempt() {
    check(|store| {
        enqueue(store, vec![job(1)]);
        claimed(store, NOW, claim([1], false));
        let lose = Command::from(Lose {
            job: id(1),
            fence: Fence::Lease(lease(1)),
            loss: Loss::NotBegun,
            executor: "python".to_owned(),
            requests: None,
        });
        ask(store, NOW, lose).unwrap();
        assert_eq!(state(store, 1), State::Available);
        claimed(store, NOW, claim([2], false));
        ask(store, NOW, complete(1, 2, returned())).unwrap();
        let attempts = store
            .reader()
            .unwrap()
            .attempts(id(1), 0, u32::MAX)
            .unwrap();
        let numbers: Vec<u32> = attempts.iter().map(|attempt| attempt.number).collect();
        assert_eq!(numbers, [2]);
    });
}

#[test]
fn what_our_cells_may_claim_is_counted_without_the_jobs_of_runners_and_paused_queues() {
    check(|store| {
        let pause = |paused| {
            Command::from(SetPaused {
                queue: "other".parse().unwrap(),
                paused,
            })
        };
        let mut elsewhere = job(3);
        elsewhere.queue = "other".parse().unwrap();
        let jobs = vec![job(1), job_for(2, "python"), elsewhere, job_for(4, "ruby")];
        let enqueue = Command::from(Enqueue(jobs));
        let committed = store.commit(NOW, &[enqueue]).unwrap();
        assert_eq!(committed.available, 2);
        for (paused, available) in [(true, 1), (true, 1), (false, 2), (true, 1)] {
            let committed = store.commit(NOW, &[pause(paused)]).unwrap();
            assert_eq!(committed.available, available, "{paused}");
        }
        let committed = store.commit(NOW, &[claim([1, 2], false)]).unwrap();
        assert_eq!(committed.available, 0);
        let python = claimed(store, NOW, claim_in(&executor("python"), [3, 4]));
        assert_eq!(python.len(), 1);
        let committed = store.commit(NOW, &[pause(false)]).unwrap();
        assert_eq!(committed.available, 1);
    });
}

#[test]
fn suspects_are_claimed_in_groups_that_they_may_share() {
    check(|store| {
        // The first group of four is lost twice with eight jobs in its cell, the second with four.
        enqueue(store, (1..=9).map(job).collect());
        for round in 0..2 {
            let leases = 10 * round + 1..10 * round + 9;
            for one in claimed(store, NOW, claim(leases, false)) {
                let is_first_half = one.lifecycle.id <= id(4);
                let died = Command::from(Lose {
                    job: one.lifecycle.id,
                    fence: Fence::Lease(one.lifecycle.lease.unwrap().id),
                    loss: Loss::CellDied {
                        jobs: if is_first_half { 8 } else { 4 },
                    },
                    executor: "cell-1".to_owned(),
                    requests: None,
                });
                ask(store, NOW, died).unwrap();
            }
        }
        let slots = |groups: u128, first: u128| claim(first..first + 32 * groups, true);
        let ids = |claimed: Vec<Claimed>| -> Vec<JobId> {
            claimed.iter().map(|one| one.lifecycle.id).collect()
        };
        let jobs = |n: std::ops::Range<u128>| n.map(id).collect::<Vec<_>>();
        assert_eq!(ids(claimed(store, NOW, slots(1, 100))), jobs(1..5));
        assert_eq!(ids(claimed(store, NOW, slots(3, 200))), jobs(5..9));
        let shared = claimed(store, NOW, claim([300, 301], false));
        assert_eq!(ids(shared), [id(9)], "that one is no suspect");
    });
}

#[test]
fn runners_are_given_their_own_jobs_only() {
    check(|store| {
        let mut urgent = job_for(4, "python");
        urgent.priority = 0;
        let mut elsewhere = job_for(5, "python");
        elsewhere.queue = "other".parse().unwrap();
        let jobs = vec![
            job(1),
            job_for(2, "python"),
            job_for(3, "ruby"),
            urgent,
            elsewhere,
        ];
        enqueue(store, jobs);
        let paused = |paused| {
            Command::from(SetPaused {
                queue: "other".parse().unwrap(),
                paused,
            })
        };
        ask(store, NOW, paused(true)).unwrap();
        let ids = |jobs: Vec<Claimed>| -> Vec<JobId> {
            jobs.iter().map(|job| job.lifecycle.id).collect()
        };
        let awaited = |store: &dyn Store| store.reader().unwrap().executors_awaited().unwrap();
        let names = |names: &[&str]| -> Vec<Name> {
            names.iter().map(|name| name.parse().unwrap()).collect()
        };
        assert_eq!(awaited(store), names(&["python", "ruby"]));
        let python = claimed(store, NOW, claim_in(&executor("python"), [1, 2, 3]));
        assert_eq!(ids(python), [id(4), id(2)]);
        assert_eq!(ids(claimed(store, NOW, claim([4, 5], false))), [id(1)]);
        assert!(claimed(store, NOW, claim([6], true)).is_empty());
        ask(store, NOW, paused(false)).unwrap();
        let mut both = claim_in(&executor("ruby"), [7]);
        let python = claim_in(&executor("python"), [8]);
        let (
            Command::Lease(lease::Command::Claim(Claim { slots, .. })),
            Command::Lease(lease::Command::Claim(Claim { slots: more, .. })),
        ) = (&mut both, python)
        else {
            panic!("two claims");
        };
        slots.extend(more);
        let mut both = ids(claimed(store, NOW, both));
        both.sort();
        assert_eq!(both, [id(3), id(5)]);
        assert_eq!(awaited(store), []);
    });
}

#[test]
fn a_runner_s_job_is_not_one_of_the_component_that_has_a_handler_of_the_same_name() {
    check(|store| {
        ask(store, NOW, revision("basics", &["noop"], 1)).unwrap();
        enqueue(store, vec![job_for(1, "python"), job(2)]);
        let listed = |store: &dyn Store, executor: Option<&str>| -> Vec<JobId> {
            let filter = JobFilter {
                handler: Some((
                    executor.map(|name| name.parse().unwrap()),
                    "noop".parse().unwrap(),
                )),
                ..JobFilter::default()
            };
            let page = store.reader().unwrap().jobs(&filter, None, 10).unwrap();
            page.items.iter().map(|job| job.lifecycle.id).collect()
        };
        assert_eq!(listed(store, Some("python")), [id(1)]);
        assert_eq!(listed(store, None), [id(2)]);
        let remove = Command::from(RemoveComponent {
            component: "basics".parse().unwrap(),
        });
        let in_use = Rejection::Component(ComponentRefusal::InUse {
            component: "basics".parse().unwrap(),
            jobs: 1,
        });
        assert_eq!(ask(store, NOW, remove.clone()), Err(in_use));
        claimed(store, NOW, claim([1], false));
        ask(store, NOW, complete(2, 1, returned())).unwrap();
        assert_eq!(ask(store, NOW, remove), Ok(Reply::Done));
    });
}

#[test]
fn time_starts_retries_discards_and_purges() {
    check(|store| {
        let mut later = job(1);
        later.run_at = Some(NOW.plus_ms(1_000));
        let mut overdue = job(2);
        overdue.deadline = Some(NOW.plus_ms(500));
        enqueue(store, vec![later, overdue]);
        let committed = commit(store, NOW, vec![Command::from(Tick { limit: 10 })]);
        assert_eq!(committed.next_wakeup, Some(NOW.plus_ms(500)));
        commit(
            store,
            NOW.plus_ms(1_000),
            vec![Command::from(Tick { limit: 10 })],
        );
        assert_eq!(
            (state(store, 1), state(store, 2)),
            (State::Available, State::Discarded)
        );
        let week = NOW.plus_ms(8 * 24 * 3_600_000);
        let purge = commit(store, week, vec![Command::from(Tick { limit: 10 })]);
        assert_eq!(
            purge
                .changes
                .iter()
                .filter(|change| change.to.is_none())
                .count(),
            1
        );
        assert_eq!(store.reader().unwrap().job(id(2)).unwrap(), None);
    });
}

#[test]
fn a_restart_gives_running_jobs_back_and_keeps_their_cancels() {
    check(|store| {
        enqueue(store, vec![job(1), job(2)]);
        claimed(store, NOW, claim([1, 2], false));
        let cancel = Command::from(Cancel {
            job: id(2),
            reason: Some("enough".to_owned()),
            grace_ms: Some(100),
        });
        let committed = commit(store, NOW, vec![cancel]);
        assert!(
            matches!(committed.effects[..], [(_, Effect::Stop { .. })]),
            "{committed:?}"
        );
        ask(store, NOW, recover(NODE)).unwrap();
        assert_eq!(
            (state(store, 1), state(store, 2)),
            (State::Available, State::Cancelled)
        );
        let attempts = store
            .reader()
            .unwrap()
            .attempts(id(1), 0, u32::MAX)
            .unwrap();
        assert_eq!((attempts.len(), attempts[0].outcome.as_str()), (1, "lost"));
    });
}

#[test]
fn what_was_executed_for_others_is_kept_and_never_run_again() {
    check(|store| {
        for (n, outcome, expected) in [
            (1, Outcome::Completed { result: None }, State::Completed),
            (2, failed(true), State::Discarded),
            (3, failed(false), State::Discarded),
            (4, Outcome::Cancelled { partial: None }, State::Cancelled),
            (
                5,
                Outcome::Failed(Failure::new(FailureKind::Cancelled, "by force")),
                State::Cancelled,
            ),
        ] {
            let committed = store.commit(NOW, &[foreign(n, outcome)]).unwrap();
            assert_eq!(committed.available, 0);
            assert!(committed.effects.is_empty());
            assert_eq!(state(store, n), expected);
        }
        let reader = store.reader().unwrap();
        let kept = reader.job(id(1)).unwrap().unwrap();
        assert_eq!(kept.payload.external_id.as_deref(), Some("theirs-1"));
        assert_eq!(kept.lifecycle.enqueued_at, Time(NOW.0 - 20));
        assert_eq!(kept.lifecycle.finished_at, Some(Time(NOW.0 - 5)));
        let attempt = &reader.attempts(id(1), 0, u32::MAX).unwrap()[0];
        assert_eq!(attempt.started_at, Time(NOW.0 - 20));
        assert_eq!((attempt.number, attempt.meter.fuel), (1, 7));
        let committed = store
            .commit(
                NOW,
                &[
                    Command::from(Retry {
                        job: id(2),
                        force: false,
                    }),
                    claim([9], false),
                ],
            )
            .unwrap();
        assert_eq!(
            committed.replies[0],
            Err(Rejection::Job(JobRefusal::Foreign))
        );
        assert_eq!(committed.replies[1], Ok(Reply::Claimed(Vec::new())));
        let kept_ms = Policy::default().retention.ms;
        let later = NOW.plus_ms(kept_ms);
        store
            .commit(later, &[Command::from(Tick { limit: 10 })])
            .unwrap();
        assert_eq!(store.reader().unwrap().job(id(1)).unwrap(), None);
    });
}

#[test]
fn the_place_of_a_purged_job_is_not_given_again() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("host.db");
    let mut store = SqliteStore::open(&path).unwrap();
    let places = || {
        let connection = rusqlite::Connection::open(&path).unwrap();
        let mut statement = connection.prepare("SELECT seq FROM jobs").unwrap();
        let places = statement.query_map([], |row| row.get(0)).unwrap();
        places.map(Result::unwrap).collect::<Vec<i64>>()
    };
    let mut newest = job(2);
    newest.policy.retention = Retention::equal(1);
    enqueue(&mut store, vec![job(1), newest]);
    let cancel = Command::from(Cancel {
        job: id(2),
        reason: None,
        grace_ms: None,
    });
    ask(&mut store, NOW, cancel).unwrap();
    commit(
        &mut store,
        NOW.plus_ms(5),
        vec![Command::from(Tick { limit: 9 })],
    );
    assert_eq!(places(), [1]);
    drop(store);
    let mut store = SqliteStore::open(&path).unwrap();
    enqueue(&mut store, vec![job(3)]);
    assert_eq!(places(), [1, 3]);
}

#[test]
fn a_damaged_file_and_one_of_a_later_version_are_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("host.db");
    std::fs::write(&path, [b'x'; 8192]).unwrap();
    let error = SqliteStore::open(&path).map(drop).unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
    std::fs::remove_file(&path).unwrap();
    drop(SqliteStore::open(&path).unwrap());
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[63] = 200;
    std::fs::write(&path, bytes).unwrap();
    let error = SqliteStore::open(&path).map(drop).unwrap_err();
    assert!(error.to_string().contains("version"), "{error}");
}

#[test]
fn the_latest_attempts_in_cells_are_found_whatever_came_of_them() {
    check(|store| {
        enqueue(store, vec![job(1), job(2), job_for(3, "pool")]);
        claimed(store, NOW, claim([1, 2], false));
        for (n, outcome) in [(1, returned()), (2, failed(false))] {
            let at = NOW.plus_ms(u64::try_from(n).unwrap());
            ask(store, at, complete(n, n, outcome)).unwrap();
        }
        store
            .commit(NOW, &[foreign(4, Outcome::Completed { result: None })])
            .unwrap();
        let ended = |since, limit| {
            let reader = store.reader().unwrap();
            let found = reader.attempts_since(since, limit).unwrap();
            let shown = found.into_iter().map(|(handler, attempt)| {
                assert_eq!(handler, job(1).handler.as_str());
                assert_eq!(attempt.revision, Some(("basics".to_owned(), 1)));
                (attempt.finished_at.0 - NOW.0, attempt.outcome)
            });
            shown.collect::<Vec<_>>()
        };
        let (completed, failed) = ("completed".to_owned(), "failed".to_owned());
        let all = [(-5, completed.clone()), (2, failed.clone()), (1, completed)];
        assert_eq!(ended(Time(0), 100), all);
        assert_eq!(ended(NOW.plus_ms(2), 100), [(2, failed)]);
        assert_eq!(ended(Time(0), 1), all[..1]);
    });
}
