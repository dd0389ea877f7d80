//! The document's operations beside running jobs, as commands and what their answers mean: list,
//! look at, submit, stop, queue again. Pure; whoever calls sends them.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use host_core::graph::find_cycle;
use host_core::time::Time;
use serde_json::json;

use super::dispatcher::Task;
use super::job::{self, DEPENDENCIES_MAX};
use super::refusal::{Code, Refusal};
use super::wire::{self, Command, Value};

/// How many keys one look at the key space takes in.
const SCAN_KEYS: u32 = 1_000;

/// A job that a client submits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// A UUID that no other job has.
    pub id: String,
    /// Which worker.
    pub worker_id: String,
    /// What.
    pub task: Task,
    /// For whom.
    pub caller_id: String,
    /// In which context.
    pub context_id: String,
    /// The time limit, in seconds.
    pub timeout_seconds: u64,
    /// Further attempts after a failure.
    pub retries: u32,
    /// Whether it may run beside others of its context.
    pub concurrent: bool,
    /// Where its log is written to as well.
    pub log_path: Option<String>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// The jobs that must have finished before.
    pub dependencies: BTreeSet<String>,
}

/// How a job is, out of its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobView {
    /// Its id, as its key says.
    pub id: String,
    /// All fields; what is no UTF-8 is shown as it can be.
    pub fields: BTreeMap<String, String>,
}

impl JobView {
    /// Returns a field.
    pub fn get(&self, field: &str) -> Option<&str> {
        self.fields.get(field).map(String::as_str)
    }

    /// Returns its status, `unknown` where the hash has none.
    pub fn status(&self) -> &str {
        self.get("status").unwrap_or("unknown")
    }

    /// Returns the jobs that must finish before it, as far as they can be read.
    pub fn depends_on(&self) -> BTreeSet<String> {
        let lists = ["dependencies", "prerequisites"];
        let lists = lists.iter().filter_map(|field| self.get(field));
        lists
            .filter_map(|list| serde_json::from_str::<Vec<String>>(list).ok())
            .flatten()
            .collect()
    }
}

/// Looks at the next part of the key space; begin with the cursor `0`. Keys that hold no hash are
/// left out by Redis.
pub fn scan(cursor: &str) -> Command {
    let count = SCAN_KEYS.to_string();
    wire::plain(&[
        "SCAN",
        cursor,
        "MATCH",
        "hero:job:*",
        "COUNT",
        &count,
        "TYPE",
        "hash",
    ])
}

/// Reads what [`scan`] found: the next cursor, `0` at the end, and ids, which may come twice.
pub fn scanned(value: &Value) -> Result<(String, Vec<String>), Refusal> {
    let parts = match value {
        Value::List(parts) => parts.as_slice(),
        _ => &[],
    };
    let (Some(cursor), Some(keys)) = (parts.first().and_then(Value::text), parts.get(1)) else {
        return Err(odd("SCAN"));
    };
    let prefix = wire::job_key("");
    let keys = keys.texts().into_iter();
    let ids = keys.filter_map(|key| key.strip_prefix(&prefix).map(str::to_owned));
    Ok((cursor.to_owned(), ids.collect()))
}

/// Asks for a job's hash.
pub fn look(id: &str) -> Command {
    wire::plain(&["HGETALL", &wire::job_key(id)])
}

/// Reads a job's hash; `None` if there is none.
pub fn looked(id: &str, value: &Value) -> Result<Option<JobView>, Refusal> {
    let Value::List(_) = value else {
        return Err(odd("HGETALL"));
    };
    let texts = value.texts();
    let pairs = texts.chunks_exact(2);
    let fields: BTreeMap<String, String> = pairs
        .map(|pair| (pair[0].clone(), pair[1].clone()))
        .collect();
    let id = id.to_owned();
    Ok((!fields.is_empty()).then_some(JobView { id, fields }))
}

/// Makes the commands that store and queue a job. `known` holds what was read of the jobs it
/// depends on, and of those that they depend on: a circle is refused and names its path.
pub fn submit(submission: &Submission, known: &[JobView], wall: Time) -> Result<Command, Refusal> {
    let Submission {
        id,
        worker_id,
        dependencies,
        ..
    } = submission;
    check(submission, known)?;
    let now = wall.to_rfc3339();
    let mut fields = vec![
        ("id", id.clone()),
        ("caller_id", submission.caller_id.clone()),
        ("worker_id", worker_id.clone()),
        ("context_id", submission.context_id.clone()),
        ("timeout", submission.timeout_seconds.to_string()),
        ("retries", submission.retries.to_string()),
        ("concurrent", submission.concurrent.to_string()),
        ("created_at", now.clone()),
        ("updated_at", now),
        ("status", "dispatched".to_owned()),
        ("env_vars", json!(submission.env).to_string()),
        ("prerequisites", "[]".to_owned()),
        ("dependents", "[]".to_owned()),
        ("dependencies", json!(dependencies).to_string()),
    ];
    if let Some(path) = &submission.log_path {
        fields.push(("log_path", path.clone()));
    }
    fields.extend(submission.task.fields());
    Ok(wire::store_and_queue(id, worker_id, &fields))
}

fn check(submission: &Submission, known: &[JobView]) -> Result<(), Refusal> {
    let Submission {
        id, dependencies, ..
    } = submission;
    if !job::is_id(id) || !dependencies.iter().all(|other| job::is_id(other)) {
        let message = "id, dependencies: expected UUIDs";
        return Err(Refusal::new(Code::Id, message));
    }
    if dependencies.len() > DEPENDENCIES_MAX {
        let expected = format!("at most {DEPENDENCIES_MAX} jobs to wait for");
        let found = dependencies.len().to_string();
        let code = Code::FieldRange;
        return Err(Refusal::field(code, "dependencies", &expected, &found));
    }
    let mut ids = vec![id.clone()];
    ids.extend(
        known
            .iter()
            .map(|job| job.id.clone())
            .filter(|other| other != id),
    );
    let place = |id: &String| ids.iter().position(|other| other == id);
    let mut edges: Vec<Vec<usize>> = vec![dependencies.iter().filter_map(place).collect()];
    let others = known.iter().filter(|job| job.id != *id);
    edges.extend(others.map(|job| job.depends_on().iter().filter_map(place).collect()));
    match find_cycle(&edges) {
        None => Ok(()),
        Some(path) => {
            let path: Vec<&str> = path.iter().map(|place| ids[*place].as_str()).collect();
            Err(job::cycle(&path))
        }
    }
}

/// Asks a worker to stop a job.
pub fn stop(worker_id: &str, id: &str) -> Command {
    wire::request_stop(worker_id, id)
}

/// Queues a job again that has failed or that its worker lost, without what it left behind.
pub fn requeue(job: &JobView, wall: Time) -> Result<Vec<Command>, Refusal> {
    if job.status() == "finished" {
        let message = "status: the job has finished; submit it as a new one";
        return Err(Refusal::new(Code::JobEnded, message));
    }
    let Some(worker) = job.get("worker_id").filter(|worker| !worker.is_empty()) else {
        let expected = "the worker it is for";
        let code = Code::FieldType;
        return Err(Refusal::field(code, "worker_id", expected, "nothing"));
    };
    let (key, now) = (wire::job_key(&job.id), wall.to_rfc3339());
    Ok(vec![
        wire::plain(&["HSET", &key, "status", "dispatched", "updated_at", &now]),
        wire::plain(&["HDEL", &key, "output", "error"]),
        wire::plain(&["PERSIST", &key]),
        wire::plain(&["DEL", &wire::reply_queue(&job.id)]),
        wire::plain(&["LPUSH", &wire::work_queue(worker), &job.id]),
    ])
}

/// Asks how many jobs wait for a worker, run there, are to stop, and could not be run.
pub fn lengths(worker_id: &str) -> [Command; 4] {
    [
        wire::work_queue(worker_id),
        wire::processing(worker_id),
        wire::stop_queue(worker_id),
        wire::dead_letters(worker_id),
    ]
    .map(|key| wire::plain(&["LLEN", &key]))
}

fn odd(command: &str) -> Refusal {
    Refusal::new(
        Code::Reply,
        format!("Redis answers {command} with something else"),
    )
}
