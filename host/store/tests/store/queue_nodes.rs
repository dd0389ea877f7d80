//! One node removes a queue while another enqueues into it: no job is left in a queue that does not exist.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use host_core::id::NodeId;
use host_engine::Command;
use host_engine::job::Purge;
use host_engine::queue::RemoveQueue;
use host_store::postgres::PostgresStore;
use uuid::Uuid;

use crate::jobs::{NOW, ask, claim, claimed, complete, enqueue, id, job, returned};
use crate::postgres::{TESTED, open, target};
use crate::server::Schema;

/// How many jobs there are at least, and at most if the queue is never found empty.
const JOBS: u128 = 100;
const JOBS_MAX: u128 = 5_000;

/// Ends the other thread, also if a check fails.
struct Guard<'a>(&'a AtomicBool);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn jobs_of_a_queue_that_another_node_removes_are_claimed() {
    let schema = Schema::new();
    let mut store = open(&schema);
    let other = NodeId(Uuid::from_u128(99));
    let mut other_store = PostgresStore::open(&target(&schema), other, TESTED).unwrap();
    let (is_done, removed) = (AtomicBool::new(false), AtomicU32::new(0));
    // It looks at the queues before there is one.
    let remove = RemoveQueue {
        queue: job(1).queue,
    };
    assert!(ask(&mut other_store, NOW, remove.into()).is_err());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                let queue = job(1).queue;
                let remove = Command::from(RemoveQueue { queue });
                let count = u32::from(ask(&mut other_store, NOW, remove).is_ok());
                removed.fetch_add(count, Ordering::Relaxed);
            }
        });
        let _guard = Guard(&is_done);
        for n in 1..=JOBS_MAX {
            if n > JOBS && removed.load(Ordering::Relaxed) > 0 {
                break;
            }
            enqueue(&mut store, vec![job(n)]);
            let claimed = claimed(&mut store, NOW, claim([n], false));
            assert_eq!(claimed.len(), 1, "job {n}");
            ask(&mut store, NOW, complete(n, n, returned())).unwrap();
            ask(&mut store, NOW, Purge { job: id(n) }.into()).unwrap();
        }
    });
    assert!(removed.into_inner() > 0);
}
