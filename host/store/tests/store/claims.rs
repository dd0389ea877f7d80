//! How many jobs one claim returns.

use host_core::command::{Command, NewJob, Reply};
use host_core::job::Lane;
use host_core::json::JsonText;

use crate::cases::check;
use crate::jobs::{NOW, claim, claim_in, claimed, commit, enqueue, id, job, job_for, runner};

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
            if let Command::Claim {
                params_bytes_max, ..
            } = &mut claim
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

/// A host claims no jobs that its cells cannot run. Foreign runners have handlers of their own.
#[test]
fn handlers_that_a_host_lacks_are_left_to_others() {
    check(|store| {
        let lacking = |job: NewJob| NewJob {
            handler: "lacking".parse().unwrap(),
            ..job
        };
        let except = |mut command: Command| {
            if let Command::Claim { except, .. } = &mut command {
                except.insert("lacking".parse().unwrap());
            }
            command
        };
        let jobs = |n: u128| {
            vec![
                lacking(job(n)),
                job(n + 1),
                lacking(job_for(n + 2, "python")),
            ]
        };
        let claims = |n: u128| {
            let lanes = [
                (Lane::Shared, n),
                (runner("python"), n + 3),
                (Lane::Apart, n + 6),
            ];
            lanes.map(|(lane, n)| except(claim_in(&lane, n..n + 3)))
        };
        // In the batch that adds them, and later.
        let mut batch = vec![Command::Enqueue(jobs(1))];
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
        let rest = claimed(store, NOW, claim([20, 21, 22], false));
        let rest: Vec<_> = rest.iter().map(|job| job.lifecycle.id).collect();
        assert_eq!(rest, [id(1), id(4)]);
    });
}
