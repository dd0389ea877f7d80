//! Submits a job for a client: checks it as our worker would, and stores it. The caller reads the
//! jobs that it depends on.

use std::collections::{BTreeMap, BTreeSet};

use host_core::graph::find_cycle;
use host_core::time::Time;

use crate::hero::job::{self, Terms};
use crate::hero::job_hash::JobHash;
use crate::hero::job_view::JobView;
use crate::hero::messages::{self, Command, Script, Value, WAITING};
use crate::hero::refusals::{Code, Refusal};
use crate::hero::task::Task;

/// The most dependents that are recorded in a job.
const DEPENDENTS_MAX: usize = 1_000;

/// The longest worker id, in bytes.
const WORKER_ID_BYTES_MAX: usize = 128;

/// A job that a client submits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// A UUID that no other job has.
    pub id: String,
    /// The worker that executes the job.
    pub worker_id: String,
    /// The script or handler.
    pub task: Task,
    /// The language of a script; if `None`, the worker detects it.
    pub script_type: Option<String>,
    /// The sender of the job.
    pub caller_id: String,
    /// The context of the job.
    pub context_id: String,
    /// The time limit, in seconds.
    pub timeout_seconds: u64,
    /// Further attempts after a failure.
    pub retries: u32,
    /// Whether the job may run at the same time as others of its context.
    pub concurrent: bool,
    /// The path of an additional log file.
    pub log_path: Option<String>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// The jobs that must finish first.
    pub dependencies: BTreeSet<String>,
}

/// The result of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// The job is queued.
    Queued,
    /// The job waits and is queued when these jobs have finished.
    Waits(Vec<String>),
    /// A job with this id already exists and was not changed.
    Known,
}

/// Makes the command that stores a job and queues it, or makes it wait for others. `known` has the
/// jobs it depends on, and the jobs that those depend on: a circle is refused with its path.
/// `log_root` is the folder of log files.
pub fn submit(
    submission: &Submission,
    known: &[JobView],
    log_root: Option<&str>,
    wall: Time,
) -> Result<Command, Refusal> {
    let Submission { id, worker_id, .. } = submission;
    let fields = fields(submission, wall);
    check(submission, &fields, log_root)?;
    check_circles(submission, known)?;
    if submission.dependencies.is_empty() {
        return Ok(messages::store_and_queue(id, worker_id, &fields));
    }
    let mut keys = vec![
        messages::job_key(id),
        messages::work_queue(worker_id),
        WAITING.to_owned(),
    ];
    keys.extend(
        submission
            .dependencies
            .iter()
            .map(|id| messages::job_key(id)),
    );
    let mut args = vec![id.clone(), wall.0.to_string(), DEPENDENTS_MAX.to_string()];
    for (field, value) in fields {
        args.extend([field.to_owned(), value]);
    }
    Ok(Command::Script {
        script: Script::Enter,
        keys,
        args: args.into_iter().map(String::into_bytes).collect(),
    })
}

/// Reads the result of a submission.
pub fn submitted(value: &Value) -> Result<Submitted, Refusal> {
    let texts = match value {
        Value::Data(_) => value.text().into_iter().map(str::to_owned).collect(),
        list => list.texts(),
    };
    match texts.split_first() {
        Some((word, _)) if word == "queued" => Ok(Submitted::Queued),
        Some((word, _)) if word == "known" => Ok(Submitted::Known),
        Some((word, open)) if word == "waits" => Ok(Submitted::Waits(open.to_vec())),
        _ => Err(Refusal::odd_reply("a submission")),
    }
}

/// Returns the jobs that must still be read before a circle can be excluded: jobs that those in
/// `known` wait for and that are not in `known`.
pub fn links(submission: &Submission, known: &BTreeMap<String, JobView>) -> BTreeSet<String> {
    let waiting = known.values().filter(|job| !job.has_ended());
    let mut ids = submission.dependencies.clone();
    ids.extend(waiting.flat_map(JobView::depends_on));
    ids.retain(|id| job::is_id(id) && !known.contains_key(id));
    ids
}

fn fields(submission: &Submission, wall: Time) -> Vec<(&'static str, String)> {
    let job = JobHash {
        id: &submission.id,
        worker_id: &submission.worker_id,
        task: &submission.task,
        script_type: submission.script_type.as_deref(),
        caller_id: &submission.caller_id,
        context_id: &submission.context_id,
        timeout_seconds: submission.timeout_seconds,
        retries: submission.retries,
        concurrent: submission.concurrent,
        log_path: submission.log_path.as_deref(),
        env: &submission.env,
        dependencies: &submission.dependencies,
        attributes: &BTreeMap::new(),
    };
    job.fields(wall)
}

/// Checks the stored fields as our worker would.
fn check(
    submission: &Submission,
    fields: &[(&'static str, String)],
    log_root: Option<&str>,
) -> Result<(), Refusal> {
    let Submission { id, worker_id, .. } = submission;
    if !job::is_id(id) {
        let found = format!("a text of {} bytes", id.len());
        return Err(Refusal::field(Code::Id, "id", "a UUID", &found));
    }
    check_worker(worker_id)?;
    let value = |(name, bytes_max): &(&str, usize)| {
        let field = fields.iter().find(|(field, _)| field == name);
        match field {
            None => Value::Nil,
            Some((_, text)) if text.len() > *bytes_max => {
                Value::Int(i64::try_from(text.len()).unwrap_or(i64::MAX))
            }
            Some((_, text)) => Value::Data(text.clone().into_bytes()),
        }
    };
    let values: Vec<Value> = job::FIELDS.iter().map(value).collect();
    let terms = Terms {
        worker: worker_id.clone(),
        timeout_ms: 0,
        log_root: log_root.map(str::to_owned),
    };
    job::read(id, &values, &terms).map(|_| ())
}

/// Checks a worker id, which becomes part of keys.
pub(super) fn check_worker(worker_id: &str) -> Result<(), Refusal> {
    let fits = (1..=WORKER_ID_BYTES_MAX).contains(&worker_id.len());
    if fits && worker_id.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(());
    }
    let expected = format!("1 to {WORKER_ID_BYTES_MAX} printable characters without blanks");
    let found = format!("a text of {} bytes", worker_id.len());
    Err(Refusal::field(
        Code::FieldRange,
        "worker_id",
        &expected,
        &found,
    ))
}

fn check_circles(submission: &Submission, known: &[JobView]) -> Result<(), Refusal> {
    let id = &submission.id;
    let others: Vec<&JobView> = known.iter().filter(|job| job.id != *id).collect();
    let ids: Vec<&String> = [id]
        .into_iter()
        .chain(others.iter().map(|job| &job.id))
        .collect();
    let places: BTreeMap<&String, usize> = ids.iter().zip(0..).map(|(id, at)| (*id, at)).collect();
    let edges = |ids: &BTreeSet<String>| {
        ids.iter()
            .filter_map(|id| places.get(id).copied())
            .collect()
    };
    let mut graph: Vec<Vec<usize>> = vec![edges(&submission.dependencies)];
    graph.extend(others.iter().map(|job| edges(&job.depends_on())));
    match find_cycle(&graph) {
        None => Ok(()),
        Some(path) => {
            let path: Vec<&str> = path.iter().map(|place| ids[*place].as_str()).collect();
            Err(job::cycle(&path))
        }
    }
}
