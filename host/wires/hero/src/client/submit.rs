//! Submits a job for a client: checks it as our worker would, and stores it. The caller reads the
//! jobs that it depends on.

use host_core::time::Time;

use crate::job::circles::{self, Walk};
use crate::job::new::NewJob;
use crate::job::{self, Terms, WORKER_ID_BYTES_MAX};
use crate::messages::{self, Command, Script, Value, WAITING};
use crate::refusals::{Code, Refusal};

/// The most dependents that are recorded in a job.
const DEPENDENTS_MAX: usize = 1_000;

/// The result of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Submitted {
    /// The job is queued.
    Queued,
    /// The job waits and is queued when these jobs have finished.
    Waits(Vec<String>),
    /// A job with this id already exists and was not changed.
    Exists,
}

/// Makes the command that stores a job and queues it, or makes it wait for others. `log_root` is the
/// folder of log files.
pub(crate) fn submit(job: &NewJob, log_root: Option<&str>, wall: Time) -> Result<Command, Refusal> {
    let NewJob { id, worker_id, .. } = job;
    let fields = job.fields(wall);
    check(job, &fields, log_root)?;
    if job.dependencies.is_empty() {
        return Ok(messages::store_and_queue(id, worker_id, &fields));
    }
    let mut keys = vec![
        messages::job_key(id),
        messages::work_queue(worker_id),
        WAITING.to_owned(),
    ];
    keys.extend(job.dependencies.iter().map(|id| messages::job_key(id)));
    let mut args = vec![id.clone(), wall.0.to_string(), DEPENDENTS_MAX.to_string()];
    for (field, value) in fields {
        args.extend([field.to_owned(), value]);
    }
    Ok(Command::script(Script::Enter, keys, args))
}

/// Reads the result of a submission.
pub(crate) fn submitted(value: &Value) -> Result<Submitted, Refusal> {
    let texts = match value {
        Value::Data(_) => value.text().into_iter().map(str::to_owned).collect(),
        list => list.texts(),
    };
    match texts.split_first() {
        Some((word, _)) if word == "queued" => Ok(Submitted::Queued),
        Some((word, _)) if word == "known" => Ok(Submitted::Exists),
        Some((word, open)) if word == "waits" => Ok(Submitted::Waits(open.to_vec())),
        _ => Err(Refusal::odd_reply("a submission")),
    }
}

/// Begins a walk over the jobs that a new job waits for.
pub(crate) fn links(job: &NewJob) -> Walk {
    Walk::from([(job.id.clone(), job.dependencies.clone())])
}

/// Refuses a job that would close a circle, with its path. `walk` began at the [`links`] of the job.
pub(crate) fn check_circles(job: &NewJob, walk: &Walk) -> Result<(), Refusal> {
    if walk.is_full() {
        let expected = format!("at most {} jobs behind them", circles::KNOWN_MAX);
        return Err(Refusal::range("dependencies", &expected, "more"));
    }
    match walk.circles(|id| id == job.id).first() {
        Some(circle) => Err(job::cycle(&circles::turned(circle, &job.id))),
        None => Ok(()),
    }
}

/// Checks the stored fields as our worker would.
fn check(
    job: &NewJob,
    fields: &[(&'static str, String)],
    log_root: Option<&str>,
) -> Result<(), Refusal> {
    let NewJob { id, worker_id, .. } = job;
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
        log_root: log_root.map(str::to_owned),
    };
    job::read(id, &values, &terms).map(|_| ())
}

/// Checks a worker id.
pub(super) fn check_worker(worker_id: &str) -> Result<(), Refusal> {
    if job::is_worker_id(worker_id) {
        return Ok(());
    }
    let expected = format!("1 to {WORKER_ID_BYTES_MAX} printable characters without blanks");
    let found = format!("a text of {} bytes", worker_id.len());
    Err(Refusal::range("worker_id", &expected, &found))
}
