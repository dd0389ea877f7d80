//! How much one claim hands out.

use host_core::command::Command;
use host_core::json::JsonText;

use crate::cases::check;
use crate::jobs::{NOW, claim, claimed, enqueue, id, job};

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
