//! Commands that an engine refuses because a limit is reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use host_core::job::State;
use host_core::outcome::Outcome;
use host_core::policy::Backoff;
use host_core::port::Clock;
use host_core::time::Time;
use host_engine::component::{ComponentRefusal, RemoveComponent};
use host_engine::job::{Cancel, Enqueue, JobRefusal, Record, Retry, Tick, Ticked};
use host_engine::queue::{QueueRefusal, SetPaused};
use host_engine::{Capacity, Command, Rejection, Reply, Store, job};

use crate::cases::{check, state};
use crate::job_batches::{cancel, new_batch};
use crate::jobs::{
    NOW, ask, claim, claimed, commit, complete, enqueue, foreign, id, job, returned, revision,
};
use crate::limit_keys::{of_all, set_limit};

/// Sets small limits: one queue, two jobs that have not ended, one component.
fn limited(store: &mut dyn Store) {
    let capacity = Capacity {
        queues_max: 1,
        jobs_max: 2,
        components_max: 1,
        attempts_max: 7,
        ..Capacity::default()
    };
    store.limit(capacity, Arc::new(SlowClock::default()));
}

/// A clock on which three milliseconds pass between two looks.
#[derive(Default)]
pub(crate) struct SlowClock(AtomicI64);

impl Clock for SlowClock {
    fn now(&self) -> Time {
        Time(self.0.fetch_add(3, Ordering::Relaxed))
    }

    fn wall(&self) -> Time {
        self.now()
    }
}

#[test]
fn a_tick_that_takes_long_leaves_the_rest_to_the_next() {
    check(|store| {
        store.limit(Capacity::default(), Arc::new(SlowClock::default()));
        let scheduled = |n| {
            let mut new = job(n);
            new.run_at = Some(NOW.plus_ms(5));
            new
        };
        enqueue(store, (1..=6).map(scheduled).collect());
        let later = NOW.plus_ms(5);
        for expected in [(4, Some(later)), (2, None)] {
            let committed = commit(store, later, vec![Command::from(Tick { limit: 10 })]);
            match committed.replies[..] {
                [Ok(Reply::Ticked(Ticked { jobs }))] => {
                    assert_eq!((jobs, committed.next_wakeup), expected);
                }
                _ => panic!("{committed:?}"),
            }
        }
    });
}

/// Ticks on a slow clock until eight jobs have left a state. Returns how many were in it before each tick.
fn tick_until_none_is(store: &mut dyn Store, left: State) -> Vec<usize> {
    store.limit(Capacity::default(), Arc::new(SlowClock::default()));
    let mut counts = Vec::new();
    loop {
        let states = (1..=8).map(|n| state(store, n));
        let count = states.filter(|state| *state == left).count();
        counts.push(count);
        assert!(counts.len() < 10, "{counts:?}");
        if count == 0 {
            return counts;
        }
        ask(store, NOW, Command::from(Tick { limit: 100 })).unwrap();
    }
}

#[test]
fn a_tick_leaves_jobs_of_a_raised_limit_to_the_next() {
    check(|store| {
        ask(store, NOW, set_limit(of_all(1))).unwrap();
        enqueue(store, (1..=8).map(job).collect());
        ask(store, NOW, set_limit(of_all(100))).unwrap();
        let left = tick_until_none_is(store, State::Pending);
        assert_eq!(left[0], 7);
        assert!(left.len() > 2, "{left:?}");
    });
}

#[test]
fn a_tick_leaves_jobs_of_a_cancelled_batch_to_the_next() {
    check(|store| {
        ask(store, NOW, new_batch(1, false, (1..=8).map(job).collect())).unwrap();
        ask(store, NOW, cancel(1)).unwrap();
        let left = tick_until_none_is(store, State::Available);
        assert_eq!(left[0], 8);
        assert!(left.len() > 2, "{left:?}");
    });
}

#[test]
fn queues_are_limited_in_number() {
    check(|store| {
        limited(store);
        let in_queue = |n, queue: &str| {
            let mut new = job(n);
            new.queue = queue.parse().unwrap();
            new
        };
        ask(store, NOW, Command::from(Enqueue(vec![in_queue(1, "a")]))).unwrap();
        let refused = |queue: &str| {
            let (queue, limit) = (queue.parse().unwrap(), 1);
            Err(Rejection::Queue(QueueRefusal::TooMany { queue, limit }))
        };
        let another = Command::from(Enqueue(vec![in_queue(2, "b")]));
        assert_eq!(ask(store, NOW, another), refused("b"));
        let paused = Command::from(SetPaused {
            queue: "c".parse().unwrap(),
            paused: true,
        });
        assert_eq!(ask(store, NOW, paused), refused("c"));
        let mut history = foreign(3, returned());
        if let Command::Job(job::Command::Record(Record(foreign))) = &mut history {
            foreign.job.queue = "d".parse().unwrap();
        }
        assert_eq!(ask(store, NOW, history), refused("d"));
        assert_eq!(store.reader().unwrap().queues().unwrap().len(), 1);
        ask(store, NOW, Command::from(Enqueue(vec![in_queue(2, "a")]))).unwrap();
    });
}

#[test]
fn jobs_that_have_not_ended_are_limited_in_number() {
    check(|store| {
        limited(store);
        let all = Command::from(Enqueue(vec![job(1), job(2), job(3)]));
        let full = |jobs| {
            Err(Rejection::Job(JobRefusal::TooManyWaiting {
                jobs,
                limit: 2,
            }))
        };
        assert_eq!(ask(store, NOW, all), full(0), "all or none");
        enqueue(store, vec![job(1), job(2)]);
        let another = || Command::from(Enqueue(vec![job(3)]));
        assert_eq!(ask(store, NOW, another()), full(2));
        claimed(store, NOW, claim([1], false));
        assert_eq!(ask(store, NOW, another()), full(2), "a running job counts");
        ask(store, NOW, complete(1, 1, returned())).unwrap();
        ask(store, NOW, another()).unwrap();
    });
}

#[test]
fn a_job_that_runs_again_counts_as_one_that_has_not_ended() {
    check(|store| {
        limited(store);
        enqueue(store, vec![job(1), job(2)]);
        let cancel = Command::from(Cancel {
            job: id(1),
            reason: None,
            grace_ms: None,
        });
        ask(store, NOW, cancel).unwrap();
        enqueue(store, vec![job(3)]);
        let retry = || {
            Command::from(Retry {
                job: id(1),
                force: false,
            })
        };
        let full = Rejection::Job(JobRefusal::TooManyWaiting { jobs: 2, limit: 2 });
        assert_eq!(ask(store, NOW, retry()), Err(full));
        claimed(store, NOW, claim([1], false));
        ask(store, NOW, complete(2, 1, returned())).unwrap();
        ask(store, NOW, retry()).unwrap();
    });
}

#[test]
fn attempts_are_limited_in_number() {
    check(|store| {
        limited(store);
        let asks_for = |n, attempts| {
            let mut new = job(n);
            new.policy.max_attempts = attempts;
            Command::from(Enqueue(vec![new]))
        };
        let refused = Rejection::Job(JobRefusal::TooManyAttempts { asked: 8, limit: 7 });
        assert_eq!(ask(store, NOW, asks_for(1, 8)), Err(refused));
        ask(store, NOW, asks_for(1, 7)).unwrap();
    });
}

/// A job that is tried again and again keeps its latest attempts, and how long all of them took.
#[test]
fn old_attempts_make_room_for_new_ones() {
    const ATTEMPTS: u128 = 350;
    check(|store| {
        let mut new = job(1);
        new.policy.max_attempts = 1_000;
        new.policy.backoff = Backoff {
            base_ms: 0,
            max_ms: 0,
        };
        enqueue(store, vec![new]);
        let mut now = NOW;
        for n in 1..=ATTEMPTS {
            assert_eq!(claimed(store, now, claim([n], false)).len(), 1, "{n}");
            now = now.plus_ms(3);
            let again = Outcome::Retry {
                after_ms: Some(0),
                reason: "not yet".to_owned(),
            };
            let ended = ask(store, now, complete(1, n, again)).unwrap();
            let Reply::Moved(ended) = ended else {
                panic!("{ended:?}");
            };
            let rests = n > 9;
            assert_eq!(ended.run_at.is_some(), rests, "{n}");
            now = ended.run_at.unwrap_or(now);
            commit(store, now, vec![Command::from(Tick { limit: 10 })]);
        }
        let reader = store.reader().unwrap();
        let job = reader.job(id(1)).unwrap().unwrap().lifecycle;
        assert_eq!(
            (u128::from(job.attempt), u128::from(job.ran_ms)),
            (ATTEMPTS, 3 * ATTEMPTS)
        );
        let numbers = |after, limit| {
            let attempts = reader.attempts(id(1), after, limit).unwrap();
            let numbers = attempts.iter().map(|attempt| attempt.number);
            numbers.collect::<Vec<_>>()
        };
        assert_eq!(numbers(0, 1_000), (201..=350).collect::<Vec<_>>());
        assert_eq!(numbers(0, 2), [201, 202]);
        assert_eq!(numbers(348, 9), [349, 350]);
    });
}

#[test]
fn components_are_limited_in_number() {
    check(|store| {
        limited(store);
        ask(store, NOW, revision("a", &["x"], 1)).unwrap();
        ask(store, NOW, revision("a", &["x", "y"], 2)).unwrap();
        let refused = Rejection::Component(ComponentRefusal::TooMany {
            component: "b".parse().unwrap(),
            limit: 1,
        });
        assert_eq!(ask(store, NOW, revision("b", &["z"], 3)), Err(refused));
        let component = "a".parse().unwrap();
        ask(store, NOW, Command::from(RemoveComponent { component })).unwrap();
        ask(store, NOW, revision("b", &["z"], 3)).unwrap();
    });
}
