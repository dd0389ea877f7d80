//! How long ended jobs are kept.

use host_core::policy::Retention;
use host_engine::Command;
use host_engine::job::Tick;

use crate::cases::check;
use crate::jobs::{NOW, claim, claimed, commit, complete, enqueue, failed, id, job, returned};

#[test]
fn discarded_jobs_are_kept_for_a_time_of_their_own() {
    check(|store| {
        let kept = |n| {
            let mut new = job(n);
            new.policy.retention = Retention {
                ms: 1_000,
                discarded_ms: 5_000,
            };
            new
        };
        enqueue(store, vec![kept(1), kept(2)]);
        claimed(store, NOW, claim([1, 2], false));
        commit(
            store,
            NOW,
            vec![complete(1, 1, returned()), complete(2, 2, failed(false))],
        );
        for (after_ms, left) in [
            (999, [true, true]),
            (1_000, [false, true]),
            (5_000, [false; 2]),
        ] {
            let tick = vec![Command::from(Tick { limit: 10 })];
            commit(store, NOW.plus_ms(after_ms), tick);
            let reader = store.reader().unwrap();
            let found = [1, 2].map(|n| reader.job(id(n)).unwrap().is_some());
            assert_eq!(found, left, "after {after_ms} ms");
        }
    });
}
