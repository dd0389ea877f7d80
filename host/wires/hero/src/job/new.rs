//! A job that this host stores for a worker: what it runs, and the fields of its hash.

use std::collections::{BTreeMap, BTreeSet};

use host_core::json::JsonText;
use host_core::time::Time;
use serde_json::{Value, json};

/// The handler that executes a script from its params.
pub(crate) const SCRIPT: &str = "script";

/// The sender of jobs that name none.
pub(crate) const CALLER: &str = "host";

/// The field with the job's sender.
pub(crate) const CALLER_ID: &str = "caller_id";

/// The field with the job's context.
pub(crate) const CONTEXT_ID: &str = "context_id";

/// The field with the path of the job's log file.
pub(crate) const LOG_PATH: &str = "log_path";

/// Our field with the other attributes of a job, a JSON object of texts.
pub(crate) const ATTRIBUTES: &str = "attributes";

/// What a worker executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// A script.
    Script(String),
    /// A handler that the worker has, with its params.
    Handler {
        name: String,
        /// A JSON object.
        params: JsonText,
    },
}

/// A job that this host stores for a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewJob {
    /// A UUID that no other job has.
    pub(crate) id: String,
    pub(crate) worker_id: String,
    pub(crate) task: Task,
    /// The language of a script; if `None`, the worker detects it.
    pub(crate) script_type: Option<String>,
    /// The sender of the job.
    pub(crate) caller_id: String,
    pub(crate) context_id: String,
    pub(crate) timeout_seconds: u64,
    /// Further attempts after a failure.
    pub(crate) retries: u32,
    /// Whether the job may run at the same time as others of its context.
    pub(crate) concurrent: bool,
    /// The path of an additional log file.
    pub(crate) log_path: Option<String>,
    /// Environment variables.
    pub(crate) env: BTreeMap<String, String>,
    /// The jobs that must finish first.
    pub(crate) dependencies: BTreeSet<String>,
    /// The job's other attributes.
    pub(crate) attributes: BTreeMap<String, String>,
}

impl Task {
    /// Makes the task from a handler's name and params. For [`SCRIPT`], the script is the text
    /// `script` of the params. The error describes what is wrong with the params.
    pub(crate) fn of(handler: String, params: JsonText) -> Result<Self, String> {
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
            Value::String(_) => Err("params.script: must not be empty".to_owned()),
            Value::Null => Err("params.script: missing".to_owned()),
            _ => Err("params.script: must be a string".to_owned()),
        }
    }
}

impl NewJob {
    /// Makes the documented fields, and those of ours, of the job's hash, as stored at `wall`.
    pub(crate) fn fields(&self, wall: Time) -> Vec<(&'static str, String)> {
        let now = wall.to_rfc3339();
        let mut fields = vec![
            ("id", self.id.clone()),
            (CALLER_ID, self.caller_id.clone()),
            ("worker_id", self.worker_id.clone()),
            (CONTEXT_ID, self.context_id.clone()),
            ("timeout", self.timeout_seconds.to_string()),
            ("retries", self.retries.to_string()),
            ("concurrent", self.concurrent.to_string()),
            ("created_at", now.clone()),
            ("updated_at", now),
            ("status", "dispatched".to_owned()),
            ("env_vars", json!(self.env).to_string()),
            ("prerequisites", "[]".to_owned()),
            ("dependents", "[]".to_owned()),
            ("dependencies", json!(self.dependencies).to_string()),
        ];
        let optional = [
            (LOG_PATH, &self.log_path),
            ("script_type", &self.script_type),
        ];
        for (field, value) in optional {
            fields.extend(value.clone().map(|value| (field, value)));
        }
        if !self.attributes.is_empty() {
            fields.push((ATTRIBUTES, json!(self.attributes).to_string()));
        }
        match &self.task {
            Task::Script(script) => fields.push(("script", script.clone())),
            Task::Handler { name, params } => fields.extend([
                ("handler", name.clone()),
                ("script", params.as_str().to_owned()),
            ]),
        }
        fields
    }
}
