//! The fields of the hash in which a sender stores a job.

use std::collections::{BTreeMap, BTreeSet};

use host_core::time::Time;
use serde_json::json;

use super::task::Task;

/// The field with the job's sender.
pub(super) const CALLER_ID: &str = "caller_id";

/// The field with the job's context.
pub(super) const CONTEXT_ID: &str = "context_id";

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
}

impl JobHash<'_> {
    /// Makes the documented fields of a job that is stored at `wall`.
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
        let optional = [
            ("log_path", self.log_path),
            ("script_type", self.script_type),
        ];
        for (field, value) in optional {
            fields.extend(value.map(|value| (field, value.to_owned())));
        }
        fields.extend(self.task.fields());
        fields
    }
}
