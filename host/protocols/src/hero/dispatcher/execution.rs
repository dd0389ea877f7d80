//! What a foreign worker is to run, and the hash it becomes. Knows no state.

use std::collections::{BTreeMap, BTreeSet};

use host_core::failure::{Failure, FailureKind};
use host_core::json::JsonText;
use host_core::port::Assignment;
use host_core::time::Time;
use serde_json::Value;

use crate::hero::config::DispatcherConfig;
use crate::hero::job_hash::{CALLER_ID, CONTEXT_ID, JobHash};

/// The handler that stands for the script in its params.
pub const SCRIPT: &str = "script";

/// What a foreign worker is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// A script in a language of its own choice.
    Script(String),
    /// A handler that is deployed there, with its params.
    Handler {
        /// Its name.
        name: String,
        /// An object.
        params: JsonText,
    },
}

impl Task {
    /// Returns its fields in a job's hash.
    pub(in crate::hero) fn fields(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Script(script) => vec![("script", script.clone())],
            Self::Handler { name, params } => vec![
                ("handler", name.clone()),
                ("script", params.as_str().to_owned()),
            ],
        }
    }

    /// Makes the task from a handler's name and params; for [`SCRIPT`] the script is the text `script`
    /// of the params. The error says what is wrong with them.
    pub fn of(handler: String, params: JsonText) -> Result<Self, String> {
        if handler != SCRIPT {
            let name = handler;
            return Ok(Self::Handler { name, params });
        }
        let found = match serde_json::from_str(params.as_str()) {
            Ok(Value::Object(mut params)) => params.remove(SCRIPT).unwrap_or_default(),
            _ => Value::Null,
        };
        match found {
            Value::String(script) if !script.is_empty() => Ok(Self::Script(script)),
            Value::String(_) => Err("params.script: expected a script, found no text".to_owned()),
            Value::Null => Err("params.script: expected a text, found nothing".to_owned()),
            _ => Err("params.script: expected a text, found something else".to_owned()),
        }
    }
}

/// One execution by a foreign worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execution {
    /// The job's id there: a UUID that no other execution has.
    pub id: String,
    /// The worker that runs it.
    pub worker_id: String,
    /// What is run.
    pub task: Task,
    /// The sender; the dispatcher's own `caller_id` if absent.
    pub caller_id: Option<String>,
    /// Its context.
    pub context_id: String,
    /// How long it may run, in milliseconds; sent in whole seconds, rounded up.
    pub timeout_ms: u64,
    /// The instant of host time after which it may not run.
    pub deadline: Option<Time>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
}

impl Execution {
    /// Makes the execution of an assignment by `worker_id`, under the new UUID `id`. The attributes
    /// `caller_id` and `context_id` have fields of their own; without a context it is the queue.
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

    /// Makes the fields of a job's hash, as documented.
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
            // Our own host decides about another attempt.
            retries: 0,
            concurrent: true,
            log_path: None,
            env: &self.env,
            dependencies: &BTreeSet::new(),
        };
        job.fields(wall)
    }
}
