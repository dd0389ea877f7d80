//! One node removes a queue while another enqueues into it: no job is left in a queue that does not exist.

use std::sync::atomic::{AtomicBool, Ordering};

use host_core::command::{Command, Purge, RemoveQueue};
use host_core::id::NodeId;
use host_store::postgres::PostgresStore;
use uuid::Uuid;

use crate::jobs::{NOW, ask, claim, claimed, complete, enqueue, id, job, returned};
use crate::postgres::{TESTED, open, target};
use crate::server::Schema;

const JOBS: u128 = 100;

#[test]
fn jobs_of_a_queue_that_another_node_removes_are_claimed() {
    let schema = Schema::new();
    let mut store = open(&schema);
    let other = NodeId(Uuid::from_u128(99));
    let mut remover = PostgresStore::open(&target(&schema), other, TESTED).unwrap();
    let is_done = AtomicBool::new(false);
    let removed = std::thread::scope(|scope| {
        let removing = scope.spawn(|| {
            let mut removed = 0;
            while !is_done.load(Ordering::Relaxed) {
                let queue = job(1).queue;
                let remove = Command::from(RemoveQueue { queue });
                removed += u32::from(ask(&mut remover, NOW, remove).is_ok());
            }
            removed
        });
        for n in 1..=JOBS {
            enqueue(&mut store, vec![job(n)]);
            let claimed = claimed(&mut store, NOW, claim([n], false));
            assert_eq!(claimed.len(), 1, "job {n}");
            ask(&mut store, NOW, complete(n, n, returned())).unwrap();
            ask(&mut store, NOW, Purge { job: id(n) }.into()).unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
        removing.join().unwrap()
    });
    assert!(removed > 0);
}
