//! The dispatcher role: foreign workers do our work. Stores jobs, queues them, watches their hashes
//! until they end, stops them, queues those again that a worker lost. Pure, as the worker is.

mod outcome;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use host_core::failure::{Failure, FailureKind};
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_core::time::Time;
use serde_json::json;

use super::config::DispatcherConfig;
use super::job::is_id;
use super::wire::{self, Call, CallTag, Command, Lane, Value};
use crate::port::Tag;
use crate::session::Moment;

/// How often hashes are looked at: soon after a job was queued, and later on, in milliseconds.
const LOOK_SOON_MS: u64 = 10;
const LOOK_MS: u64 = 100;

/// How long a job is looked at often, in milliseconds.
const SOON_MS: u64 = 1_000;

/// The most hashes looked at in one call.
const LOOKS_MAX: usize = 500;

/// The fields of a hash that say how a job is.
const WATCHED: [&str; 3] = ["status", "output", "error"];

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
    /// Returns the fields of a hash that say it.
    pub(super) fn fields(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Script(script) => vec![("script", script.clone())],
            Self::Handler { name, params } => vec![
                ("handler", name.clone()),
                ("script", params.as_str().to_owned()),
            ],
        }
    }
}

/// Work for a foreign worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The job's id there: a UUID that no other execution has.
    pub id: String,
    /// Which worker.
    pub worker_id: String,
    /// What.
    pub task: Task,
    /// For whom; the dispatcher's own name if absent.
    pub caller_id: Option<String>,
    /// In which context.
    pub context_id: String,
    /// How long it may run, in milliseconds; sent in whole seconds, rounded up.
    pub timeout_ms: u64,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
}

/// How an execution by a foreign worker ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Its outcome is known.
    Outcome(Outcome),
    /// The worker is gone and nobody knows how far it came.
    Lost(String),
    /// It was not sent: there is no room, or the host stops.
    NoRoom,
}

/// What the session decided, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DispatcherAct {
    /// Send this to Redis.
    Call(Call),
    /// An execution is over; nothing follows about it.
    Ended {
        /// Which one.
        tag: Tag,
        /// How.
        end: End,
    },
}

/// All jobs that are out at foreign workers of one Redis.
#[derive(Debug)]
pub struct Dispatcher {
    config: DispatcherConfig,
    out: BTreeMap<Tag, Out>,
    calls: BTreeMap<CallTag, Purpose>,
    due: BTreeSet<(Time, Due)>,
    connected: bool,
    calls_made: u64,
}

/// One job that is out.
#[derive(Debug)]
struct Out {
    assignment: Assignment,
    /// Whether Redis has confirmed that it is queued.
    queued: bool,
    queued_at: Time,
    started_at: Option<Time>,
    requeues: u32,
    /// By when it must have stopped, once it was asked to.
    stop_by: Option<Time>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Purpose {
    Submit(Tag),
    Look(Vec<Tag>),
    Told,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Look,
    Submit(Tag),
}

type Todo = Vec<DispatcherAct>;

/// The wait before Redis is asked again for what it refused, in milliseconds.
const REFUSED_PAUSE_MS: u64 = 1_000;

/// How long a worker may take to say that it has stopped a job beyond the grace, in milliseconds.
const STOP_LATE_MS: u64 = 1_000;

impl Dispatcher {
    /// Makes a session with nothing out.
    pub fn new(config: DispatcherConfig) -> Self {
        Self {
            config,
            out: BTreeMap::new(),
            calls: BTreeMap::new(),
            due: BTreeSet::new(),
            connected: false,
            calls_made: 0,
        }
    }

    /// Sends work out, or says at once that there is no room for it.
    pub fn on_start(&mut self, at: Moment, tag: Tag, assignment: Assignment, todo: &mut Todo) {
        if self.out.len() >= self.config.in_flight_max || !is_id(&assignment.id) {
            let end = End::NoRoom;
            return todo.push(DispatcherAct::Ended { tag, end });
        }
        let out = Out {
            assignment,
            queued: false,
            queued_at: at.now,
            started_at: None,
            requeues: 0,
            stop_by: None,
        };
        self.out.insert(tag, out);
        self.submit(at, tag, todo);
    }

    /// Asks a worker to stop a job. What does not say that it has within the grace is given up.
    pub fn on_cancel(&mut self, at: Moment, tag: Tag, grace_ms: u64, todo: &mut Todo) {
        let Some(out) = self.out.get_mut(&tag) else {
            return;
        };
        let stop_by = at.now.plus_ms(grace_ms).plus_ms(STOP_LATE_MS);
        let first = out.stop_by.is_none();
        out.stop_by = Some(out.stop_by.map_or(stop_by, |earlier| earlier.min(stop_by)));
        if first {
            let stop = wire::request_stop(&out.assignment.worker_id, &out.assignment.id);
            self.call(Purpose::Told, vec![stop], todo);
        }
        self.look_soon(at.now);
    }

    /// Takes note that Redis can be reached, for the first time or again.
    pub fn on_connected(&mut self, at: Moment, todo: &mut Todo) {
        self.connected = true;
        let (mut unsent, mut stops) = (Vec::new(), Vec::new());
        for (tag, out) in &self.out {
            if !out.queued {
                unsent.push(*tag);
            }
            if out.stop_by.is_some() {
                let Assignment { worker_id, id, .. } = &out.assignment;
                stops.push(wire::request_stop(worker_id, id));
            }
        }
        for tag in unsent {
            self.submit(at, tag, todo);
        }
        self.call(Purpose::Told, stops, todo);
        self.look(at, todo);
    }

    /// Takes note that Redis cannot be reached: no answer to any call will follow.
    pub fn on_disconnected(&mut self) {
        self.connected = false;
        self.calls.clear();
        self.due.clear();
    }

    /// Takes in what Redis answers to a call: one value for each of its commands.
    pub fn on_reply(&mut self, at: Moment, call: CallTag, values: &[Value], todo: &mut Todo) {
        match self.calls.remove(&call) {
            Some(Purpose::Submit(tag)) => {
                let Some(out) = self.out.get_mut(&tag) else {
                    return;
                };
                if matches!(values.first(), Some(Value::Data(_))) {
                    out.queued = true;
                    out.queued_at = at.now;
                    self.look_soon(at.now);
                } else {
                    self.arm(at.now.plus_ms(REFUSED_PAUSE_MS), Due::Submit(tag));
                }
            }
            Some(Purpose::Look(tags)) => {
                for (tag, value) in tags.into_iter().zip(values) {
                    self.looked(at, tag, value, todo);
                }
                self.look_again(at.now);
            }
            Some(Purpose::Told) | None => {}
        }
    }

    /// Returns the next instant at which time alone changes something.
    pub fn wakeup(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Does all that is due.
    pub fn on_wakeup(&mut self, at: Moment, todo: &mut Todo) {
        while self.due.first().is_some_and(|(due, _)| *due <= at.now) {
            match self.due.pop_first() {
                Some((_, Due::Look)) => self.look(at, todo),
                Some((_, Due::Submit(tag))) => self.submit(at, tag, todo),
                None => return,
            }
        }
    }

    /// Tells whether nothing is out.
    pub fn is_idle(&self) -> bool {
        self.out.is_empty()
    }

    fn submit(&mut self, at: Moment, tag: Tag, todo: &mut Todo) {
        let Some(out) = self.out.get(&tag) else {
            return;
        };
        let assignment = &out.assignment;
        let fields = fields(assignment, &self.config, at.wall);
        let command = wire::store_and_queue(&assignment.id, &assignment.worker_id, &fields);
        self.call(Purpose::Submit(tag), vec![command], todo);
    }

    fn look(&mut self, at: Moment, todo: &mut Todo) {
        let tags: Vec<Tag> = self
            .out
            .iter()
            .filter(|(_, out)| out.queued)
            .map(|(tag, _)| *tag)
            .collect();
        for tags in tags.chunks(LOOKS_MAX) {
            let looks = tags
                .iter()
                .filter_map(|tag| self.out.get(tag))
                .map(|out| {
                    let key = wire::job_key(&out.assignment.id);
                    wire::plain(&["HMGET", &key, WATCHED[0], WATCHED[1], WATCHED[2]])
                })
                .collect();
            self.call(Purpose::Look(tags.to_vec()), looks, todo);
        }
        if tags.is_empty() {
            self.look_again(at.now);
        }
    }

    /// Takes in how a job is.
    fn looked(&mut self, at: Moment, tag: Tag, value: &Value, todo: &mut Todo) {
        let Some(out) = self.out.get_mut(&tag) else {
            return;
        };
        let Value::List(fields) = value else {
            return;
        };
        let field = |index: usize| fields.get(index).and_then(Value::text);
        let stopping = out.stop_by.is_some();
        match field(0) {
            Some("finished") => {
                let outcome = outcome::finished(field(1).unwrap_or_default());
                return self.end(tag, End::Outcome(outcome), todo);
            }
            Some("error") => {
                let outcome = outcome::failed(field(2).unwrap_or_default(), stopping);
                return self.end(tag, End::Outcome(outcome), todo);
            }
            Some("started") => {
                out.started_at.get_or_insert(at.now);
            }
            Some(_) => {}
            None => {
                let lost = "its hash is gone from Redis".to_owned();
                return self.end(tag, End::Lost(lost), todo);
            }
        }
        if out.stop_by.is_some_and(|by| at.now >= by) {
            let message = "the worker did not say that it has stopped the job";
            let failure = Failure::new(FailureKind::CancelTimeout, message);
            return self.end(tag, End::Outcome(Outcome::Failed(failure)), todo);
        }
        let patience_ms = out.assignment.timeout_ms + self.config.stale_after_ms;
        if out
            .started_at
            .is_some_and(|since| at.now.since_ms(since) >= patience_ms)
        {
            self.stale(at, tag, todo);
        }
    }

    /// Queues a job again whose worker is silent, or gives it up.
    fn stale(&mut self, at: Moment, tag: Tag, todo: &mut Todo) {
        let Some(out) = self.out.get_mut(&tag) else {
            return;
        };
        if out.requeues >= self.config.requeues_max || out.stop_by.is_some() {
            let times = out.requeues;
            let lost = format!("its worker started it and fell silent; queued again {times} times");
            return self.end(tag, End::Lost(lost), todo);
        }
        out.requeues += 1;
        out.started_at = None;
        let Assignment { id, worker_id, .. } = &out.assignment;
        let now = at.wall.to_rfc3339();
        let (job, queue) = (wire::job_key(id), wire::work_queue(worker_id));
        let commands = vec![
            wire::plain(&["HSET", &job, "status", "dispatched", "updated_at", &now]),
            wire::plain(&["LPUSH", &queue, id]),
        ];
        self.call(Purpose::Told, commands, todo);
    }

    /// Ends an execution and lets Redis forget it in time.
    fn end(&mut self, tag: Tag, end: End, todo: &mut Todo) {
        let Some(out) = self.out.remove(&tag) else {
            return;
        };
        let Assignment { id, worker_id, .. } = &out.assignment;
        let seconds = self.config.job_ttl_seconds.to_string();
        let mut commands = vec![
            wire::plain(&["EXPIRE", &wire::job_key(id), &seconds]),
            wire::plain(&["DEL", &wire::reply_queue(id)]),
        ];
        if out.stop_by.is_some() {
            commands.push(wire::forget_stop(worker_id, id.as_bytes(), 0));
        }
        if matches!(end, End::Outcome(Outcome::Failed(_)) | End::Lost(_)) {
            commands.push(wire::plain(&[
                "LREM",
                &wire::work_queue(worker_id),
                "0",
                id,
            ]));
        }
        self.call(Purpose::Told, commands, todo);
        todo.push(DispatcherAct::Ended { tag, end });
    }

    fn look_soon(&mut self, now: Time) {
        self.due.retain(|(_, due)| *due != Due::Look);
        self.arm(now.plus_ms(LOOK_SOON_MS), Due::Look);
    }

    /// Arms the next look, unless one is out or armed or there is nothing to look at.
    fn look_again(&mut self, now: Time) {
        let looking = self
            .calls
            .values()
            .any(|purpose| matches!(purpose, Purpose::Look(_)));
        let armed = self.due.iter().any(|(_, due)| *due == Due::Look);
        if looking || armed || self.out.is_empty() {
            return;
        }
        let young = |out: &Out| now.since_ms(out.queued_at) < SOON_MS;
        let soon = self.out.values().any(young);
        let wait_ms = if soon { LOOK_SOON_MS } else { LOOK_MS };
        self.arm(now.plus_ms(wait_ms), Due::Look);
    }

    fn arm(&mut self, at: Time, due: Due) {
        self.due.insert((at, due));
    }

    fn call(&mut self, purpose: Purpose, commands: Vec<Command>, todo: &mut Todo) {
        if commands.is_empty() || !self.connected {
            return;
        }
        let tag = CallTag(self.calls_made);
        self.calls_made += 1;
        self.calls.insert(tag, purpose);
        todo.push(DispatcherAct::Call(Call {
            tag,
            lane: Lane::Shared,
            commands,
        }));
    }
}

/// Makes the fields of a job's hash, as documented.
fn fields(
    assignment: &Assignment,
    config: &DispatcherConfig,
    wall: Time,
) -> Vec<(&'static str, String)> {
    let now = wall.to_rfc3339();
    let caller = assignment.caller_id.clone();
    let mut fields = vec![
        ("id", assignment.id.clone()),
        (
            "caller_id",
            caller.unwrap_or_else(|| config.caller_id.clone()),
        ),
        ("worker_id", assignment.worker_id.clone()),
        ("context_id", assignment.context_id.clone()),
        (
            "timeout",
            assignment.timeout_ms.div_ceil(1_000).max(1).to_string(),
        ),
        // The one who asked us decides about another attempt.
        ("retries", "0".to_owned()),
        ("concurrent", "true".to_owned()),
        ("created_at", now.clone()),
        ("updated_at", now),
        ("status", "dispatched".to_owned()),
        ("env_vars", json!(assignment.env).to_string()),
        ("prerequisites", "[]".to_owned()),
        ("dependents", "[]".to_owned()),
        ("dependencies", "[]".to_owned()),
    ];
    fields.extend(assignment.task.fields());
    fields
}
