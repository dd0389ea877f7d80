//! The settings of both roles' sessions, as checked values.

use crate::hero::messages::PopSide;

/// The settings of the worker session for one worker id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerConfig {
    pub worker_id: String,
    /// The name of this session among all that claim jobs: unique for each host and worker id, and
    /// the same after a restart.
    pub instance: String,
    /// The most claimed jobs that may run at once.
    pub concurrency: usize,
    /// Which jobs are taken first.
    pub pop_side: PopSide,
    /// The time limit of a job that sets none, in milliseconds.
    pub timeout_ms: u64,
    /// How long a stopped guest may take to stop by itself, in milliseconds.
    pub grace_ms: u64,
    /// The wait before the first retry, in milliseconds. Doubles with each retry.
    pub backoff_ms: u64,
    /// The folder that must contain each `log_path`. If `None`, jobs with a `log_path` are refused.
    pub log_root: Option<String>,
    /// How long the hash of an ended job is kept, in seconds; 0 keeps it forever.
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
pub struct OrchestratorConfig {
    /// The name of this host among those that share the Redis: unique for each host, and the same
    /// after a restart.
    pub instance: String,
    /// The `caller_id` of jobs that set none.
    pub caller_id: String,
    /// The most jobs sent out at once. Further jobs end with "no room".
    pub in_flight_max: usize,
    /// How many times a job that its worker lost is queued again.
    pub requeues_max: u32,
    /// When a job is considered lost, in milliseconds: this long after the time limit of a started
    /// job, or after a job was taken and did not start.
    pub stale_after_ms: u64,
    /// How long the hashes and replies of ended jobs are kept, in seconds.
    pub job_ttl_seconds: u64,
}

impl OrchestratorConfig {
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
