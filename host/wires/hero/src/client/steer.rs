//! Stops jobs, queues them again, and reads the lengths of a worker's lists: commands and answers.

use host_core::time::Time;
use serde_json::json;

use super::submit::check_worker;
use crate::job::view::JobView;
use crate::messages::{self, Command, STOPPED, STOPS_SCANNED_MAX, Script, Value, WAITING};
use crate::refusals::{Code, Refusal};

/// How long after its time limit a started job is considered lost by its worker, in milliseconds.
pub(crate) const STALE_AFTER_MS: u64 = 10_000;

/// How many times the host queues a lost job again by itself: what its workers lose each time may be what
/// ends them.
pub(super) const REQUEUES_MAX: u32 = 3;

/// The result of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopResult {
    /// The worker of the job was asked to stop it.
    Asked,
    /// The job has ended: it waited for others, and no worker had it.
    Ended,
}

/// Makes the command that asks for a job to be stopped.
pub(crate) fn stop(job: &JobView, wall: Time) -> Result<Command, Refusal> {
    let worker = worker(job)?;
    let reply = json!({ "error": STOPPED }).to_string();
    let reply_seconds = messages::reply_seconds(job.timeout_ms()).to_string();
    let keys = vec![
        messages::job_key(&job.id),
        WAITING.to_owned(),
        messages::stop_queue(worker),
        messages::reply_queue(&job.id),
    ];
    let scanned = STOPS_SCANNED_MAX.to_string();
    let now = wall.to_rfc3339();
    let args = [
        job.id.as_str(),
        &now,
        STOPPED,
        &reply,
        &reply_seconds,
        &scanned,
    ];
    Ok(Command::script(Script::Stop, keys, args))
}

/// Reads the result of a stop; `None` if the job is gone.
pub(crate) fn stopped(value: &Value) -> Result<Option<StopResult>, Refusal> {
    match value.text() {
        Some("asked") => Ok(Some(StopResult::Asked)),
        Some("stopped") => Ok(Some(StopResult::Ended)),
        Some("missing") => Ok(None),
        Some("ended") => {
            let message = "status: the job has already ended";
            Err(Refusal::new(Code::JobEnded, message))
        }
        _ => Err(Refusal::odd_reply("a stop")),
    }
}

/// Returns whether a job was started and is well past its time limit, so that its worker has lost
/// it.
pub(crate) fn is_stale(job: &JobView, wall: Time) -> bool {
    let patience_ms = job.timeout_ms().saturating_add(STALE_AFTER_MS);
    let started = job.get("status") == Some("started");
    let since = job.updated_at().filter(|_| started);
    since.is_some_and(|since| wall.since_ms(since) >= patience_ms)
}

/// Returns whether a job that was queued should long have been taken or be in its queue. If it is in no
/// list, its worker took it and has lost it.
pub(crate) fn may_be_lost(job: &JobView, wall: Time) -> bool {
    let waits = job.waits_for().is_some_and(|open| !open.is_empty());
    let queued = job.get("status") == Some("dispatched") && !waits;
    let since = job
        .updated_at()
        .or_else(|| job.created_at())
        .filter(|_| queued);
    since.is_some_and(|since| wall.since_ms(since) >= STALE_AFTER_MS)
}

/// Queues a job again that its worker has lost, unless that was done [`REQUEUES_MAX`] times.
pub(crate) fn requeue_by_itself(job: &JobView, wall: Time) -> Result<Command, Refusal> {
    requeue_up_to(job, false, wall, &REQUEUES_MAX.to_string())
}

/// Queues a job again that has failed or that its worker has lost, and removes its old results.
/// With `force`, also a job that may be running. A job that waited for others waits for them again.
pub(crate) fn requeue(job: &JobView, force: bool, wall: Time) -> Result<Command, Refusal> {
    requeue_up_to(job, force, wall, "")
}

fn requeue_up_to(
    job: &JobView,
    force: bool,
    wall: Time,
    requeues_max: &str,
) -> Result<Command, Refusal> {
    if job.status() == "finished" {
        let message = "status: the job has finished; submit it as a new one";
        return Err(Refusal::new(Code::JobEnded, message));
    }
    let worker = worker(job)?;
    if job.status() == "started" && !force && !is_stale(job, wall) {
        let message = format!(
            "status: the job has started, and its worker may run it until {} s after its time \
             limit; stop it, or use force if the worker is gone",
            STALE_AFTER_MS / 1_000
        );
        return Err(Refusal::new(Code::JobBusy, message));
    }
    // If a worker of ours refused the job because a dependency failed, the list of open
    // dependencies may be missing. Then the job waits for all of them.
    let refused = job
        .get("error")
        .is_some_and(|error| error.starts_with("prerequisite_failed"));
    let open = match job.waits_for() {
        Some(open) => open,
        None if refused => job.depends_on(),
        None => [].into(),
    };
    let keys = vec![
        messages::job_key(&job.id),
        messages::claim_key(&job.id),
        messages::work_queue(worker),
        messages::processing(worker),
        messages::stop_queue(worker),
        messages::reply_queue(&job.id),
        WAITING.to_owned(),
        messages::resting(worker),
    ];
    let seen = |field| job.get(field).unwrap_or_default();
    let args: [&str; 7] = [
        &job.id,
        &wall.to_rfc3339(),
        &wall.0.to_string(),
        &json!(open).to_string(),
        seen("status"),
        seen("updated_at"),
        requeues_max,
    ];
    Ok(Command::script(Script::Requeue, keys, args))
}

/// Reads the result of [`requeue`]; `None` if the job is gone.
pub(crate) fn requeued(value: &Value) -> Result<Option<()>, Refusal> {
    let refused = |message| Err(Refusal::new(Code::JobBusy, message));
    match value.text() {
        Some("queued" | "waits") => Ok(Some(())),
        Some("missing") => Ok(None),
        Some("held") => refused("status: a host is running the job; stop it first"),
        Some("changed") => refused("status: the job has just changed; read it again"),
        _ => Err(Refusal::odd_reply("a requeue")),
    }
}

/// Lets Redis expire the reply to a job, if it does not do so already.
pub(crate) fn keep_reply(job: &JobView) -> Command {
    let seconds = messages::reply_seconds(job.timeout_ms()).to_string();
    messages::plain(&["EXPIRE", &messages::reply_queue(&job.id), &seconds, "NX"])
}

/// Makes the commands for the lengths of a worker's lists: jobs that wait, jobs that run, stop
/// requests, and dead letters.
pub(crate) fn lengths(worker_id: &str) -> Result<[Command; 4], Refusal> {
    check_worker(worker_id)?;
    let keys = [
        messages::work_queue(worker_id),
        messages::processing(worker_id),
        messages::stop_queue(worker_id),
        messages::dead_letters(worker_id),
    ];
    Ok(keys.map(|key| messages::plain(&["LLEN", &key])))
}

fn worker(job: &JobView) -> Result<&str, Refusal> {
    let worker = job.get("worker_id").unwrap_or_default();
    if worker.is_empty() {
        let expected = "the worker it is for";
        let code = Code::FieldType;
        return Err(Refusal::field(code, "worker_id", expected, "nothing"));
    }
    Ok(worker)
}
