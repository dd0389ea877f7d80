//! One execution by a foreign worker, and its hash. Has no state.

use std::collections::{BTreeMap, BTreeSet};

use host_core::failure::{Failure, FailureKind};
use host_core::port::Assignment;
use host_core::time::Time;

use crate::hero::config::DispatcherConfig;
use crate::hero::job_hash::{CALLER_ID, CONTEXT_ID, JobHash};
use crate::hero::task::Task;

/// One execution by a foreign worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// The job's id there: a UUID that no other execution has.
    pub id: String,
    pub worker_id: String,
    pub task: Task,
    /// The sender; if `None`, the dispatcher's own `caller_id`.
    pub caller_id: Option<String>,
    pub context_id: String,
    /// The time limit, in milliseconds. Sent in whole seconds, rounded up.
    pub timeout_ms: u64,
    /// The deadline, in host time.
    pub deadline: Option<Time>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
}

impl Execution {
    /// Makes the execution of an assignment for `worker_id`, with the new UUID `id`. The attributes
    /// `caller_id` and `context_id` have their own fields; the default context is the queue.
    pub fn of(assignment: Assignment, worker_id: &str, id: String) -> Result<Self, Failure> {
        let attribute = |name: &str| {
            let mut attributes = assignment.attributes.iter();
            let found = attributes.find(|(other, _)| other == name);
            found.map(|(_, value)| value.clone())
        };
        let (caller_id, context_id) = (attribute(CALLER_ID), attribute(CONTEXT_ID));
        let task = Task::of(assignment.handler, assignment.params)
            .map_err(|message| Failure::new(FailureKind::InvalidParams, message))?;
        Ok(Self {
            id,
            worker_id: worker_id.to_owned(),
            task,
            caller_id,
            context_id: context_id.unwrap_or(assignment.queue),
            timeout_ms: assignment.timeout_ms,
            deadline: assignment.deadline,
            env: BTreeMap::new(),
        })
    }

    /// Makes the documented fields of a job's hash.
    pub(super) fn fields(
        &self,
        config: &DispatcherConfig,
        wall: Time,
    ) -> Vec<(&'static str, String)> {
        let job = JobHash {
            id: &self.id,
            worker_id: &self.worker_id,
            task: &self.task,
            script_type: None,
            caller_id: self.caller_id.as_deref().unwrap_or(&config.caller_id),
            context_id: &self.context_id,
            timeout_seconds: self.timeout_ms.div_ceil(1_000).max(1),
            // The host itself decides about retries.
            retries: 0,
            concurrent: true,
            log_path: None,
            env: &self.env,
            dependencies: &BTreeSet::new(),
        };
        job.fields(wall)
    }
}
