//! A job that loops until its timeout does not delay the other jobs of its worker.

use std::time::Duration;

use serde_json::json;

use crate::orchestrator::{Setup, TIMED_OUT, TIMEOUT_SECONDS};

const NEIGHBORS: usize = 160;

/// How long another job may be active; it does almost nothing.
const ON_TIME: Duration = Duration::from_secs(15);

#[test]
fn a_job_that_times_out_does_not_delay_others() {
    let rrq = Setup::new().start();
    rrq.run("noop", &json!({}));
    let workers = rrq.workers();
    let overruns = json!({"job_timeout_seconds": TIMEOUT_SECONDS, "max_retries": 1});
    let spin = rrq.enqueue("spin", &overruns);
    rrq.until("the job to loop", |it| {
        (it.job(&spin).status() == "ACTIVE").then_some(())
    });
    let options = json!({"params": {"a": 1}, "max_retries": 1});
    let neighbors: Vec<String> = (0..NEIGHBORS)
        .map(|_| rrq.enqueue("echo", &options))
        .collect();
    let first = rrq.wait(&neighbors[0]);
    assert_eq!(
        rrq.job(&spin).status(),
        "ACTIVE",
        "the looping job still runs beside {first:?}"
    );
    let late: Vec<_> = neighbors
        .iter()
        .map(|id| rrq.wait(id))
        .filter(|job| job.status() != "COMPLETED" || job.took() > ON_TIME)
        .collect();
    assert!(late.is_empty(), "{} are late: {:?}", late.len(), late[0]);
    let job = rrq.wait(&spin);
    assert_eq!(job.last_error(), TIMED_OUT, "{job:?}");
    assert_eq!(rrq.workers(), workers, "the worker was not killed");
}
