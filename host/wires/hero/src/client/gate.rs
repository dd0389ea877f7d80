//! Decides about jobs that wait for others: which are queued, which end and which keep waiting.
//! Pure; the caller reads Redis, and a script there makes sure that only one host acts.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use host_core::time::Time;
use serde_json::json;

use crate::job::circles::{self, Walk};
use crate::job::view::{Fields, JobView};
use crate::job::{self, DEPENDENCIES_MAX};
use crate::messages::{self, Command, Script, Value, WAITING};
use crate::refusals::{Code, Refusal};

/// The most waiting jobs checked in one turn.
pub(super) const TURN_JOBS_MAX: usize = 500;

/// The most dependencies checked in one turn; enough for the largest job.
const TURN_OTHERS_MAX: usize = 5 * DEPENDENCIES_MAX;

/// The fields read of a waiting job.
pub(super) const FIELDS: Fields = &[
    ("status", 64),
    ("worker_id", 256),
    ("timeout", 32),
    ("waits_for", 64 << 10),
];

/// The decision about a waiting job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Queue it: all jobs that it waited for have finished.
    Queue,
    /// End it in error.
    End(String),
    /// It waits for fewer jobs than before.
    Narrow(BTreeSet<String>),
    /// It waits for the same jobs as before.
    Wait,
    /// It no longer waits: it is gone, has ended, or was queued by others.
    Leave,
}

impl Verdict {
    const fn keeps_waiting(&self) -> bool {
        matches!(self, Self::Wait | Self::Narrow(_))
    }
}

/// Asks for the waiting jobs whose last check is the oldest.
pub(super) fn line() -> Command {
    let last = (TURN_JOBS_MAX - 1).to_string();
    messages::plain(&["ZRANGE", WAITING, "0", &last])
}

/// Reads the result of [`line()`]: job ids, and commands that remove invalid entries, which would
/// otherwise stay first forever.
pub(super) fn read_line(found: &Value) -> (Vec<String>, Vec<Command>) {
    let entries = match found {
        Value::List(entries) => entries.as_slice(),
        _ => &[],
    };
    let (mut ids, mut acts) = (Vec::new(), Vec::new());
    for entry in entries {
        match (entry.text().filter(|id| job::is_id(id)), entry) {
            (Some(id), _) => ids.push(id.to_owned()),
            (None, Value::Data(bytes)) => acts.push(Command::Plain(vec![
                b"ZREM".to_vec(),
                WAITING.as_bytes().to_vec(),
                bytes.clone(),
            ])),
            (None, _) => {}
        }
    }
    (ids, acts)
}

/// Returns how many of the waiting jobs, from the first, are checked in this turn, and the jobs
/// they wait for, whose status [`judge`] needs.
pub(super) fn turn(waiting: &[Option<JobView>]) -> (usize, BTreeSet<String>) {
    let mut others = BTreeSet::new();
    for (place, view) in waiting.iter().enumerate() {
        let open = view
            .as_ref()
            .and_then(JobView::waits_for)
            .unwrap_or_default();
        if place > 0 && others.len() + open.len() > TURN_OTHERS_MAX {
            return (place, others);
        }
        others.extend(open);
    }
    (waiting.len(), others)
}

/// Decides about the waiting jobs. `status` has the status of the jobs that they wait for; a job
/// that is missing there does not exist.
pub(super) fn judge(
    waiting: &[Option<JobView>],
    status: &BTreeMap<String, String>,
) -> Vec<Verdict> {
    let mut verdicts: Vec<Verdict> = waiting
        .iter()
        .map(|view| one(view.as_ref(), status))
        .collect();
    let links = links(waiting, &verdicts);
    judge_circles(waiting, &mut verdicts, &links);
    verdicts
}

/// Begins a walk from the jobs that keep waiting. Those whose wait ends in this turn wait for no other.
pub(crate) fn links(waiting: &[Option<JobView>], verdicts: &[Verdict]) -> Walk {
    let jobs = waiting.iter().zip(verdicts);
    Walk::from(jobs.filter_map(|(view, verdict)| {
        let view = view.as_ref()?;
        let open = view.waits_for().filter(|_| verdict.keeps_waiting());
        Some((view.id.clone(), open.unwrap_or_default()))
    }))
}

/// Ends one of the jobs of each circle: the one with the smallest id.
pub(crate) fn judge_circles(waiting: &[Option<JobView>], verdicts: &mut [Verdict], walk: &Walk) {
    let places: BTreeMap<&str, usize> = waiting
        .iter()
        .enumerate()
        .filter(|(place, _)| verdicts[*place].keeps_waiting())
        .filter_map(|(place, view)| Some((view.as_ref()?.id.as_str(), place)))
        .collect();
    for circle in walk.circles(|id| places.contains_key(id)) {
        let first = circles::first(&circle, |id| places.contains_key(id));
        if let Some((first, place)) = first.and_then(|id| Some((id, *places.get(id)?))) {
            let path = circles::turned(&circle, first);
            verdicts[place] = Verdict::End(job::cycle(&path).text());
        }
    }
}

fn one(view: Option<&JobView>, status: &BTreeMap<String, String>) -> Verdict {
    let Some(view) = view.filter(|view| view.status() == "dispatched") else {
        return Verdict::Leave;
    };
    let Some(before) = view.waits_for().filter(|_| view.get("worker_id").is_some()) else {
        let message = "worker_id, waits_for: changed since the job was stored";
        return Verdict::End(Refusal::new(Code::JobTampered, message).text());
    };
    let is = |id: &str, word: &str| status.get(id).is_some_and(|status| status == word);
    if let Some(failed) = before.iter().find(|id| is(id, "error")) {
        return Verdict::End(format!("prerequisite_failed: {failed}"));
    }
    let open: BTreeSet<String> = before
        .iter()
        .filter(|id| !is(id, "finished"))
        .cloned()
        .collect();
    if open.is_empty() {
        Verdict::Queue
    } else if open.len() < before.len() {
        Verdict::Narrow(open)
    } else {
        Verdict::Wait
    }
}

/// Makes the command that carries out a verdict, or `None` if there is nothing to do. The command
/// does nothing if the job has changed since it was read.
pub(super) fn act(
    id: &str,
    view: Option<&JobView>,
    verdict: &Verdict,
    wall: Time,
) -> Option<Command> {
    let before = view
        .and_then(|view| view.get("waits_for"))
        .unwrap_or_default();
    let open = |open: &BTreeSet<String>| json!(open).to_string();
    let (word, open, error) = match verdict {
        Verdict::Wait => return None,
        Verdict::Queue => ("queue", open(&BTreeSet::new()), ""),
        Verdict::End(error) => ("end", before.to_owned(), error.as_str()),
        Verdict::Narrow(others) => ("wait", open(others), ""),
        // The script itself finds that the job no longer waits.
        Verdict::Leave => ("wait", before.to_owned(), ""),
    };
    let field = |name| view.and_then(|view| view.get(name)).unwrap_or_default();
    let timeout_ms = view.map_or(0, JobView::timeout_ms);
    let reply = json!({ "error": error }).to_string();
    let args: [&str; 8] = [
        id,
        word,
        before,
        &open,
        &wall.to_rfc3339(),
        error,
        &reply,
        &messages::reply_seconds(timeout_ms).to_string(),
    ];
    let keys = vec![
        WAITING.to_owned(),
        messages::job_key(id),
        messages::work_queue(field("worker_id")),
        messages::reply_queue(id),
    ];
    Some(Command::script(Script::Gate, keys, args))
}

/// Records that these jobs were checked, so that others come first next time.
pub(super) fn seen<'a>(ids: impl IntoIterator<Item = &'a str>, wall: Time) -> Command {
    let now = wall.0.to_string();
    let mut words = vec!["ZADD", WAITING, "XX"];
    for id in ids {
        words.extend([now.as_str(), id]);
    }
    messages::plain(&words)
}
