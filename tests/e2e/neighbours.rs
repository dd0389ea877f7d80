//! Well-behaved jobs that run while a test attacks the host.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use host_tests::Client;
use serde_json::json;

use crate::fixture::Own;

/// How many well-behaved jobs run concurrently.
const GOOD_JOBS: usize = 8;

/// Enqueues well-behaved jobs and returns their ids.
pub(crate) fn good_jobs(client: &Client) -> Vec<String> {
    let jobs = (0..GOOD_JOBS).map(|n| match n % 2 {
        0 => json!({"handler": "echo", "params": {"n": n}, "queue": "good"}),
        _ => json!({"handler": "sleep", "params": {"ms": 20 * n}, "queue": "good"}),
    });
    jobs.map(|job| client.enqueue(&job)).collect()
}

/// Waits until these jobs have ended. Each must have succeeded at its first attempt.
pub(crate) fn assert_all_succeed(client: &Client, jobs: &[String], beside: &str) {
    for id in jobs {
        let job = client.wait(id);
        assert_eq!(
            (&job["state"], &job["attempt"]),
            (&json!("completed"), &json!(1)),
            "beside {beside}: {job}"
        );
    }
}

/// A thread that keeps running well-behaved jobs.
pub(crate) struct Neighbours {
    ends: Arc<AtomicBool>,
    rounds: JoinHandle<()>,
}

impl Neighbours {
    /// Starts them. The first round has ended when this returns.
    pub(crate) fn start(own: &Own) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let (is_over, client) = (Arc::clone(&ends), own.server.client());
        assert_all_succeed(&client, &good_jobs(&client), "nothing");
        let rounds = std::thread::spawn(move || {
            loop {
                assert_all_succeed(&client, &good_jobs(&client), "bombs");
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        Self { ends, rounds }
    }

    /// Stops them after the current round. Panics if a job did not succeed at its first attempt.
    pub(crate) fn end(self) {
        self.ends.store(true, Ordering::Relaxed);
        self.rounds.join().expect("every good job succeeds");
    }
}
