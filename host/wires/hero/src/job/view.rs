//! The state of a job as its hash shows it: fields by name, each up to a length. Has no operations.

use std::collections::{BTreeMap, BTreeSet};

use host_core::time::Time;

use super::{OUTPUT_BYTES_MAX, SCRIPT_BYTES_MAX, TIMEOUT_MS};
use crate::messages::{self, Command, Script, Value};
use crate::refusals::Refusal;

/// Names of fields, with the longest value of each that is read, in bytes.
pub(crate) type Fields = &'static [(&'static str, usize)];

/// The most jobs in one [`read`].
pub(crate) const READ_JOBS_MAX: usize = 100;

/// All documented fields and our own. Those in [`SUMMARY`] come first.
pub(crate) const FULL: Fields = &[
    ("worker_id", 256),
    ("status", 64),
    ("handler", 128),
    ("script_type", 32),
    ("caller_id", 1_024),
    ("context_id", 1_024),
    ("timeout", 32),
    ("retries", 32),
    ("concurrent", 8),
    ("created_at", 64),
    ("updated_at", 64),
    ("waits_for", 64 << 10),
    ("script", SCRIPT_BYTES_MAX),
    ("log_path", 4_096),
    ("env_vars", 64 << 10),
    ("prerequisites", 64 << 10),
    ("dependencies", 64 << 10),
    ("dependents", 64 << 10),
    ("output", OUTPUT_BYTES_MAX),
    ("error", 64 << 10),
];

/// The fields that lists show.
pub(crate) const SUMMARY: Fields = FULL.split_at(12).0;

/// The field that tells whether a job has ended.
pub(crate) const STATUS: Fields = &[("status", 64)];

/// The state of a job as its hash shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobView {
    /// The id from the job's key.
    pub(crate) id: String,
    /// The fields that exist. Invalid UTF-8 is replaced.
    pub(crate) fields: BTreeMap<&'static str, String>,
    /// The fields that are too long to read, with their lengths in bytes.
    pub(crate) left_out: BTreeMap<&'static str, u64>,
}

impl JobView {
    pub(crate) fn get(&self, field: &str) -> Option<&str> {
        self.fields.get(field).map(String::as_str)
    }

    /// Returns the status, or `unknown` if the hash has none.
    pub(crate) fn status(&self) -> &str {
        self.get("status").unwrap_or("unknown")
    }

    /// Returns whether the job has ended.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.status(), "finished" | "error")
    }

    /// Returns the jobs that must finish first, as far as they can be read.
    pub(crate) fn depends_on(&self) -> BTreeSet<String> {
        let mut all = self.ids("dependencies");
        all.extend(self.ids("prerequisites"));
        all
    }

    /// Returns the jobs that had not finished at the last check. `None` if there was no check
    /// because the job was queued without waiting, or if the field cannot be read.
    pub(crate) fn waits_for(&self) -> Option<BTreeSet<String>> {
        serde_json::from_str(self.get("waits_for")?).ok()
    }

    /// Returns the time limit, in milliseconds.
    pub(crate) fn timeout_ms(&self) -> u64 {
        let number = self.get("timeout").and_then(|text| text.parse().ok());
        let seconds = number.map(std::time::Duration::try_from_secs_f64);
        let Some(Ok(timeout)) = seconds else {
            return TIMEOUT_MS;
        };
        u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the time of the last change, as the hash states it.
    pub(crate) fn updated_at(&self) -> Option<Time> {
        self.get("updated_at").and_then(Time::parse_rfc3339)
    }

    /// Returns the time of its creation, as the hash states it.
    pub(crate) fn created_at(&self) -> Option<Time> {
        self.get("created_at").and_then(Time::parse_rfc3339)
    }

    /// Returns a list of ids; empty if the field is invalid.
    pub(crate) fn ids(&self, field: &str) -> BTreeSet<String> {
        let list = self.get(field).unwrap_or_default();
        serde_json::from_str(list).unwrap_or_default()
    }
}

/// Makes the command that reads fields of jobs, at most [`READ_JOBS_MAX`] of them.
pub(crate) fn read<'a>(ids: impl IntoIterator<Item = &'a str>, fields: Fields) -> Command {
    let keys = ids.into_iter().map(messages::job_key).collect();
    let args = fields
        .iter()
        .flat_map(|(field, bytes_max)| [(*field).to_owned(), bytes_max.to_string()]);
    Command::script(Script::Read, keys, args)
}

/// Parses the result of [`read`], job by job; `None` if a job has no hash.
pub(crate) fn parse<'a>(
    ids: impl IntoIterator<Item = &'a str>,
    fields: Fields,
    value: &Value,
) -> Result<Vec<Option<JobView>>, Refusal> {
    let Value::List(found) = value else {
        return Err(Refusal::odd_reply("the read of jobs"));
    };
    let view = |id: &str, values: &Value| {
        let Value::List(values) = values else {
            return None;
        };
        let mut view = JobView {
            id: id.to_owned(),
            ..JobView::default()
        };
        for ((field, _), value) in fields.iter().zip(values) {
            match value {
                Value::Data(bytes) => {
                    let text = String::from_utf8_lossy(bytes).into_owned();
                    view.fields.insert(field, text);
                }
                Value::Int(bytes) => {
                    let bytes = u64::try_from(*bytes).unwrap_or_default();
                    view.left_out.insert(field, bytes);
                }
                Value::Nil | Value::List(_) | Value::Error(_) => {}
            }
        }
        Some(view)
    };
    let jobs = ids.into_iter().zip(found);
    Ok(jobs.map(|(id, values)| view(id, values)).collect())
}
