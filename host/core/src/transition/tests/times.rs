//! How long a job has waited, and how long its attempts took.

use super::fixture::{LEASE, NOW, available, claim, error};
use crate::job::{Lifecycle, State};
use crate::lease::{Fence, Hold};
use crate::policy::Policy;
use crate::transition::Input;

const FENCE: Fence = Fence::Lease(LEASE);

#[test]
fn neither_an_attempt_nor_an_end_counts_as_waiting() {
    let at = |seconds: u64| NOW.plus_ms(seconds * 1_000);
    let retry = Input::Retry {
        prerequisites_open: 0,
    };
    let stop = Input::Cancel {
        reason: None,
        grace_ms: None,
    };
    let mut job = available(Policy::default());
    let times = |job: &Lifecycle, seconds| {
        let now = at(seconds);
        (job.waited_ms(now) / 1_000, job.ran_ms(now) / 1_000)
    };
    job.apply(at(10), &stop).unwrap();
    assert_eq!(times(&job, 60), (10, 0), "cancelled while it waited");
    job.apply(at(60), &retry).unwrap();
    assert_eq!(times(&job, 65), (15, 0), "the end does not count");
    claim(&mut job, at(70), Hold::Connection);
    assert_eq!(times(&job, 75), (20, 5), "nor does the attempt");
    job.apply(at(80), &Input::Complete(&FENCE, &error(false)))
        .unwrap();
    assert_eq!(job.state, State::Discarded);
    assert_eq!(times(&job, 200), (20, 10), "a dead letter does not wait");
    job.apply(at(200), &retry).unwrap();
    assert_eq!(times(&job, 207), (27, 10));
    claim(&mut job, at(210), Hold::Connection);
    job.apply(at(211), &Input::Complete(&FENCE, &error(true)))
        .unwrap();
    assert_eq!(job.state, State::Retryable);
    assert_eq!(times(&job, 221), (40, 11), "a backoff is waiting");
}
