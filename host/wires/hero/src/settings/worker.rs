//! The settings of a worker session, as checked values.

use crate::messages::PopSide;

/// The settings of the worker session for one worker id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkerConfig {
    pub(crate) worker_id: String,
    /// The name of this session among all that claim jobs: unique for each host and worker id, and
    /// the same after a restart.
    pub(crate) instance: String,
    /// The most claimed jobs that may run concurrently.
    pub(crate) concurrency: usize,
    /// Which jobs are taken first.
    pub(crate) pop_side: PopSide,
    /// The folder that must contain each `log_path`. If `None`, jobs with a `log_path` are refused.
    pub(crate) log_root: Option<String>,
    /// How long the hash of an ended job is kept, in seconds; 0 keeps it forever.
    pub(crate) job_ttl_seconds: u64,
}

impl WorkerConfig {
    /// Makes the settings of a worker id with all defaults.
    pub(crate) fn new(worker_id: impl Into<String>, instance: impl Into<String>) -> Self {
        Self {
            worker_id: worker_id.into(),
            instance: instance.into(),
            concurrency: 64,
            pop_side: PopSide::default(),
            log_root: None,
            job_ttl_seconds: 0,
        }
    }
}
