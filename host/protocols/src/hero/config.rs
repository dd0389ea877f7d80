//! The settings of both roles' sessions, as checked values.

use super::wire::PopSide;

/// The settings of the session of one worker id whose jobs we take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerConfig {
    /// The worker id.
    pub worker_id: String,
    /// Names this session among all that claim jobs: unique for each host and worker id, and the
    /// same after a restart.
    pub instance: String,
    /// The most claimed jobs that may run at once.
    pub concurrency: usize,
    /// Which jobs come first.
    pub pop_side: PopSide,
    /// The time limit of a job that states none, in milliseconds.
    pub timeout_ms: u64,
    /// How long a stopped guest may take to stop by itself, in milliseconds.
    pub grace_ms: u64,
    /// The wait before the first retry, in milliseconds; doubles with each further one.
    pub backoff_ms: u64,
    /// The folder that `log_path` must be inside of; `None` refuses jobs with a `log_path`.
    pub log_root: Option<String>,
    /// How long the hash of a job that has ended is kept, in seconds; 0 keeps it.
    pub job_ttl_seconds: u64,
}

impl WorkerConfig {
    /// Makes the settings of a worker id with all defaults.
    pub fn new(worker_id: impl Into<String>, instance: impl Into<String>) -> Self {
        Self {
            worker_id: worker_id.into(),
            instance: instance.into(),
            concurrency: 64,
            pop_side: PopSide::default(),
            timeout_ms: 30_000,
            grace_ms: 100,
            backoff_ms: 1_000,
            log_root: None,
            job_ttl_seconds: 0,
        }
    }
}

/// The settings of the session that sends jobs to foreign workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DispatcherConfig {
    /// Names this host among those that share the Redis: unique for each host, and the same after
    /// a restart.
    pub instance: String,
    /// The `caller_id` of jobs that name none.
    pub caller_id: String,
    /// The most jobs out at once; a further one ends with "no room".
    pub in_flight_max: usize,
    /// How often a job that its worker lost is queued again.
    pub requeues_max: u32,
    /// How long after its time limit a started job counts as lost, and how long after it was taken a
    /// job that does not start, in milliseconds.
    pub stale_after_ms: u64,
    /// How long hashes and replies of ended jobs are kept, in seconds.
    pub job_ttl_seconds: u64,
}

impl DispatcherConfig {
    /// Makes the settings of a host with all defaults.
    pub fn new(instance: impl Into<String>) -> Self {
        Self {
            instance: instance.into(),
            caller_id: "host".to_owned(),
            in_flight_max: 1_000,
            requeues_max: 1,
            stale_after_ms: 10_000,
            job_ttl_seconds: 3_600,
        }
    }
}
