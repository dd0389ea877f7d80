//! Commands that an engine refuses because a limit is reached.

use host_core::capacity::Capacity;
use host_core::command::Command;
use host_core::rejection::Rejection;
use host_store::store::Store;

use crate::cases::check;
use crate::jobs::{NOW, ask, claim, claimed, complete, enqueue, foreign, job, returned, revision};

/// Sets small limits: one queue, two jobs that have not ended, one component.
fn limited(store: &mut dyn Store) {
    store.limit(Capacity {
        queues_max: 1,
        jobs_max: 2,
        components_max: 1,
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
