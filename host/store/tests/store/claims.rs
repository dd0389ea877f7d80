//! How many jobs one claim returns.

use host_core::id::{JobId, NodeId};
use host_core::job::{Lane, NewJob};
use host_core::json::JsonText;
use host_engine::job::Enqueue;
use host_engine::lease::Claim;
use host_engine::{Command, Reply, Store, lease};
use host_store::postgres::PostgresStore;
use uuid::Uuid;

use crate::cases::check;
use crate::jobs::{
    NOW, claim, claim_in, claimed, commit, complete, enqueue, executor, id, job, job_for, returned,
};
use crate::postgres::{TESTED, open, target};
use crate::server::Schema;

#[test]
fn a_claim_ends_with_the_job_that_brings_it_to_its_bytes() {
    check(|store| {
        let with_params = |n: u128, bytes: usize| {
            let mut job = job(n);
            job.payload.params = JsonText(format!("{:?}", "x".repeat(bytes - 2)));
            job
        };
        enqueue(store, (1..=4).map(|n| with_params(n, 100)).collect());
        let mut taken = |leases: [u128; 3], bytes: usize| {
            let mut claim = claim(leases, false);
            if let Command::Lease(lease::Command::Claim(Claim {
                params_bytes_max, ..
            })) = &mut claim
            {
                *params_bytes_max = bytes;
            }
            let jobs = claimed(store, NOW, claim);
            jobs.iter().map(|job| job.lifecycle.id).collect::<Vec<_>>()
        };
        assert_eq!(taken([1, 2, 3], 1), [id(1)], "one at least");
        assert_eq!(taken([4, 5, 6], 200), [id(2), id(3)]);
        assert_eq!(taken([7, 8, 9], 101), [id(4)]);
    });
}

#[test]
fn running_jobs_are_read_as_they_were_claimed() {
    check(|store| {
        enqueue(store, (1..=4).map(job).collect());
        let running = claimed(store, NOW, claim([1, 2, 3], false));
        commit(store, NOW, vec![complete(2, 2, returned())]);
        let read = |ids: &[u128]| {
            let ids: Vec<JobId> = ids.iter().map(|n| id(*n)).collect();
            store.reader().unwrap().running(&ids).unwrap()
        };
        assert_eq!(
            read(&[3, 2, 4, 9, 1]),
            [running[2].clone(), running[0].clone()]
        );
        assert_eq!(read(&[]), []);
    });
}

fn unrunnable(job: NewJob) -> NewJob {
    NewJob {
        handler: "lacking".parse().unwrap(),
        ..job
    }
}

/// Makes a claim leave the jobs of a handler.
fn except(mut claim: Command) -> Command {
    if let Command::Lease(lease::Command::Claim(Claim { except, .. })) = &mut claim {
        except.insert("lacking".parse().unwrap());
    }
    claim
}

/// A host claims no jobs that its cells cannot run. Executors have handlers of their own.
#[test]
fn handlers_that_a_host_lacks_are_left_to_others() {
    check(|store| {
        let jobs = |n: u128| {
            vec![
                unrunnable(job(n)),
                job(n + 1),
                unrunnable(job_for(n + 2, "python")),
            ]
        };
        let claims = |n: u128| {
            let lanes = [
                (Lane::Shared, n),
                (executor("python"), n + 3),
                (Lane::Apart, n + 6),
            ];
            lanes.map(|(lane, n)| except(claim_in(&lane, n..n + 3)))
        };
        // In the batch that adds them, and later.
        let mut batch = vec![Command::from(Enqueue(jobs(1)))];
        batch.extend(claims(1));
        let with_them = commit(store, NOW, batch).replies;
        enqueue(store, jobs(4));
        let later = commit(store, NOW, claims(10).to_vec()).replies;
        let taken = |replies: Vec<Result<Reply, _>>| -> Vec<_> {
            let claimed = replies
                .into_iter()
                .filter_map(|reply| match reply.unwrap() {
                    Reply::Claimed(jobs) => Some(jobs),
                    _ => None,
                });
            claimed.flatten().map(|job| job.lifecycle.id).collect()
        };
        let mut all = [taken(with_them), taken(later)];
        for ids in &mut all {
            ids.sort_unstable();
        }
        assert_eq!(all, [vec![id(2), id(3)], vec![id(5), id(6)]]);
        let rest: Vec<_> = claimed(store, NOW, claim([20, 21, 22], false))
            .iter()
            .map(|job| job.lifecycle.id)
            .collect();
        assert_eq!(rest, [id(1), id(4)]);
    });
}

/// Jobs of a handler that this host cannot run, in two queues. A claim looks at 4,096 jobs at most.
const LACKING: u128 = 6_000;

/// Claims as the loop does, as long as a claim continues. Returns the jobs, and how many claims there were.
fn claim_on(store: &mut dyn Store, lease: &mut u128) -> (Vec<JobId>, usize) {
    for claims in 1.. {
        *lease += 2;
        let claim = except(claim([*lease, *lease + 1], false));
        let committed = commit(store, NOW.plus_ms(1_000), vec![claim]);
        let Ok(Reply::Claimed(jobs)) = &committed.replies[0] else {
            panic!("{committed:?}");
        };
        if !committed.claim_goes_on {
            return (jobs.iter().map(|job| job.lifecycle.id).collect(), claims);
        }
        assert!(jobs.is_empty() && claims < 30, "{claims} claims");
    }
    unreachable!()
}

/// Its work is bounded by what it asks for, and it continues behind what it has seen.
#[test]
fn a_claim_passes_few_jobs_that_its_host_cannot_run() {
    let schema = Schema::new();
    let mut store = open(&schema);
    let node = NodeId(Uuid::from_u128(7));
    let mut other = PostgresStore::open(&target(&schema), node, TESTED).unwrap();
    let in_queue = |n: u128| NewJob {
        queue: if n.is_multiple_of(2) { "even" } else { "odd" }
            .parse()
            .unwrap(),
        ..job(n)
    };
    for first in (1..=LACKING).step_by(500) {
        let jobs = (first..first + 500).map(|n| unrunnable(in_queue(n)));
        enqueue(&mut store, jobs.collect());
    }
    let mut lease = 1_000;
    let mut claims = |store: &mut dyn Store| claim_on(store, &mut lease);
    assert_eq!(claims(&mut store), (vec![], 5));
    assert_eq!(claims(&mut store), (vec![], 1), "all were seen");

    // Behind all of them, before them, and from another host.
    enqueue(&mut store, vec![in_queue(10_001)]);
    assert_eq!(claims(&mut store), (vec![id(10_001)], 1));
    let urgent = |n: u128| NewJob {
        priority: 1,
        ..in_queue(n)
    };
    enqueue(&mut other, vec![urgent(10_002), urgent(10_003)]);
    assert_eq!(claims(&mut store), (vec![id(10_002), id(10_003)], 1));
    let mut batch = vec![Command::from(Enqueue(vec![
        in_queue(10_004),
        urgent(10_005),
        urgent(10_006),
    ]))];
    lease += 2;
    batch.push(except(claim([lease, lease + 1], false)));
    assert_eq!(commit(&mut store, NOW, batch).replies.len(), 2);
    // Left by a claim of its batch, and behind jobs that are looked at again after those before them.
    assert_eq!(claim_on(&mut store, &mut lease), (vec![id(10_004)], 5));

    // Another host that can run them, and this one once it can.
    let jobs = claimed(&mut other, NOW, claim([1, 2], false));
    assert_eq!(jobs.len(), 2);
    let jobs = claimed(&mut store, NOW, claim([3], false));
    assert_eq!(jobs.first().map(|job| job.lifecycle.id), Some(id(3)));
}
