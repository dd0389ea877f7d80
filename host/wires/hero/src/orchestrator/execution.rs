//! One execution by a foreign worker. Has no state.

use std::collections::{BTreeMap, BTreeSet};

use host_core::failure::{Failure, FailureKind};
use host_core::port::Assignment;
use host_core::time::Time;

use crate::job::is_variable;
use crate::job::new::{CALLER, CALLER_ID, CONTEXT_ID, LOG_PATH, NewJob, Task};

/// One execution by a foreign worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Execution {
    /// Our job.
    pub(crate) host_job: String,
    /// The job there. Its time limit is in whole seconds, rounded up.
    pub(crate) job: NewJob,
    /// The time limit, in milliseconds.
    pub(crate) timeout_ms: u64,
    /// The deadline, in host time.
    pub(crate) deadline: Option<Time>,
}

/// The start of the names of attributes that are environment variables.
const VARIABLE: &str = "env.";

impl Execution {
    /// Makes the execution of an assignment for `worker_id`, with the new UUID `id`. The attributes
    /// `caller_id`, `context_id` and `log_path` have their own fields, and those named `env.NAME` are
    /// variables; the default context is the queue.
    pub(crate) fn of(assignment: Assignment, worker_id: &str, id: String) -> Result<Self, Failure> {
        let host_job = assignment.job_id;
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
        let job = NewJob {
            id,
            worker_id: worker_id.to_owned(),
            task,
            script_type: None,
            caller_id: caller_id.unwrap_or_else(|| CALLER.to_owned()),
            context_id: context_id.unwrap_or(assignment.queue),
            timeout_seconds: assignment.timeout_ms.div_ceil(1_000).max(1),
            // The host itself decides about retries.
            retries: 0,
            concurrent: true,
            log_path,
            env,
            dependencies: BTreeSet::new(),
            attributes,
        };
        Ok(Self {
            host_job,
            job,
            timeout_ms: assignment.timeout_ms,
            deadline: assignment.deadline,
        })
    }
}
