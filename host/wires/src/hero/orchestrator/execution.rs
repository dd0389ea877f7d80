//! One execution by a foreign worker, and its hash. Has no state.

use std::collections::{BTreeMap, BTreeSet};

use host_core::failure::{Failure, FailureKind};
use host_core::port::Assignment;
use host_core::time::Time;

use crate::hero::config::DispatcherConfig;
use crate::hero::job::is_variable;
use crate::hero::job_hash::{CALLER_ID, CONTEXT_ID, JobHash, LOG_PATH};
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
    /// The path of an additional log file of the worker.
    pub log_path: Option<String>,
    /// The job's other attributes.
    pub attributes: BTreeMap<String, String>,
}

/// The start of the names of attributes that are environment variables.
const VARIABLE: &str = "env.";

impl Execution {
    /// Makes the execution of an assignment for `worker_id`, with the new UUID `id`. The attributes
    /// `caller_id`, `context_id` and `log_path` have their own fields, and those named `env.NAME` are
    /// variables; the default context is the queue.
    pub fn of(assignment: Assignment, worker_id: &str, id: String) -> Result<Self, Failure> {
        let mut attributes: BTreeMap<String, String> = assignment.attributes.into_iter().collect();
        let caller_id = attributes.remove(CALLER_ID);
        let context_id = attributes.remove(CONTEXT_ID);
        let log_path = attributes.remove(LOG_PATH);
        let mut env = BTreeMap::new();
        attributes.retain(|name, value| match name.strip_prefix(VARIABLE) {
            Some(variable) if is_variable(variable) => {
                env.insert(variable.to_owned(), std::mem::take(value));
                false
            }
            _ => true,
        });
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
            env,
            log_path,
            attributes,
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
            log_path: self.log_path.as_deref(),
            env: &self.env,
            dependencies: &BTreeSet::new(),
            attributes: &self.attributes,
        };
        job.fields(wall)
    }
}
