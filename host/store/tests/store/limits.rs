//! Commands that an engine refuses because a limit is reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use host_core::capacity::Capacity;
use host_core::command::{Command, Reply};
use host_core::port::Clock;
use host_core::rejection::Rejection;
use host_core::time::Time;
use host_store::store::Store;

use crate::cases::check;
use crate::jobs::{NOW, ask, claim, claimed, complete, enqueue, foreign, job, returned, revision};

/// Sets small limits: one queue, two jobs that have not ended, one component.
fn limited(store: &mut dyn Store) {
    let capacity = Capacity {
        queues_max: 1,
        jobs_max: 2,
        components_max: 1,
    };
    store.limit(capacity, Arc::new(SlowClock::default()));
}

/// A clock on which three milliseconds pass between two looks.
#[derive(Default)]
struct SlowClock(AtomicI64);

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
            match ask(store, later, Command::Tick { limit: 10 }) {
                Ok(Reply::Ticked { jobs, next_wakeup }) => {
                    assert_eq!((jobs, next_wakeup), expected);
                }
                other => panic!("{other:?}"),
            }
        }
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
        ask(store, NOW, Command::Enqueue(vec![in_queue(1, "a")])).unwrap();
        let refused = |queue: &str| {
            let (queue, limit) = (queue.parse().unwrap(), 1);
            Err(Rejection::TooManyQueues { queue, limit })
        };
        let another = Command::Enqueue(vec![in_queue(2, "b")]);
        assert_eq!(ask(store, NOW, another), refused("b"));
        let paused = Command::SetPaused {
            queue: "c".parse().unwrap(),
            paused: true,
        };
        assert_eq!(ask(store, NOW, paused), refused("c"));
        let mut history = foreign(3, returned());
        if let Command::Record(foreign) = &mut history {
            foreign.job.queue = "d".parse().unwrap();
        }
        assert_eq!(ask(store, NOW, history), refused("d"));
        assert_eq!(store.reader().unwrap().queues().unwrap().len(), 1);
        ask(store, NOW, Command::Enqueue(vec![in_queue(2, "a")])).unwrap();
    });
}

#[test]
fn jobs_that_have_not_ended_are_limited_in_number() {
    check(|store| {
        limited(store);
        let all = Command::Enqueue(vec![job(1), job(2), job(3)]);
        let full = |jobs| Err(Rejection::TooManyWaiting { jobs, limit: 2 });
        assert_eq!(ask(store, NOW, all), full(0), "all or none");
        enqueue(store, vec![job(1), job(2)]);
        let another = || Command::Enqueue(vec![job(3)]);
        assert_eq!(ask(store, NOW, another()), full(2));
        claimed(store, NOW, claim([1], false));
        assert_eq!(ask(store, NOW, another()), full(2), "a running job counts");
        ask(store, NOW, complete(1, 1, returned())).unwrap();
        ask(store, NOW, another()).unwrap();
    });
}

#[test]
fn components_are_limited_in_number() {
    check(|store| {
        limited(store);
        ask(store, NOW, revision("a", &["x"], 1)).unwrap();
        ask(store, NOW, revision("a", &["x", "y"], 2)).unwrap();
        let refused = Rejection::TooManyComponents {
            component: "b".parse().unwrap(),
            limit: 1,
        };
        assert_eq!(ask(store, NOW, revision("b", &["z"], 3)), Err(refused));
        let component = "a".parse().unwrap();
        ask(store, NOW, Command::Remove { component }).unwrap();
        ask(store, NOW, revision("b", &["z"], 3)).unwrap();
    });
}
