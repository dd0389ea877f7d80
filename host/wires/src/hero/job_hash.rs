//! The fields of the hash in which a sender stores a job.

use std::collections::{BTreeMap, BTreeSet};

use host_core::time::Time;
use serde_json::json;

use super::task::Task;

/// The field with the job's sender.
pub(super) const CALLER_ID: &str = "caller_id";

/// The field with the job's context.
pub(super) const CONTEXT_ID: &str = "context_id";

/// The field with the path of the job's log file.
pub(super) const LOG_PATH: &str = "log_path";

/// Our field with the other attributes of a job, a JSON object of texts.
pub(super) const ATTRIBUTES: &str = "attributes";

/// The contents of a job's hash.
#[derive(Debug)]
pub(super) struct JobHash<'a> {
    pub(super) id: &'a str,
    pub(super) worker_id: &'a str,
    pub(super) task: &'a Task,
    /// The language of a script; if `None`, the worker detects it.
    pub(super) script_type: Option<&'a str>,
    pub(super) caller_id: &'a str,
    pub(super) context_id: &'a str,
    pub(super) timeout_seconds: u64,
    pub(super) retries: u32,
    /// Whether the job may run at the same time as others of its context.
    pub(super) concurrent: bool,
    pub(super) log_path: Option<&'a str>,
    pub(super) env: &'a BTreeMap<String, String>,
    pub(super) dependencies: &'a BTreeSet<String>,
    pub(super) attributes: &'a BTreeMap<String, String>,
}

impl JobHash<'_> {
    /// Makes the documented fields, and those of ours, of a job that is stored at `wall`.
    pub(super) fn fields(&self, wall: Time) -> Vec<(&'static str, String)> {
        let now = wall.to_rfc3339();
        let mut fields = vec![
            ("id", self.id.to_owned()),
            (CALLER_ID, self.caller_id.to_owned()),
            ("worker_id", self.worker_id.to_owned()),
            (CONTEXT_ID, self.context_id.to_owned()),
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
        let optional = [(LOG_PATH, self.log_path), ("script_type", self.script_type)];
        for (field, value) in optional {
            fields.extend(value.map(|value| (field, value.to_owned())));
        }
        if !self.attributes.is_empty() {
            fields.push((ATTRIBUTES, json!(self.attributes).to_string()));
        }
        fields.extend(self.task.fields());
        fields
    }
}
