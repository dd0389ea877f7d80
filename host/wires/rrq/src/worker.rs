//! The worker role: a foreign orchestrator gives us work over any number of connections. Decides
//! when each request is answered and with what. Knows no socket, no clock and no cell.

mod idle;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Bytes, BytesMut};
use host_core::name::Name;
use host_core::outcome::Outcome;
use host_core::port::{ForeignJob, Stop, Tag};
use host_core::time::Time;
use host_core::trace::CORRELATION;
use host_wire_kit::session::{Actions, Link, Moment, Session};
use host_wire_kit::stream::{Peer, StreamSession};

use super::WIRE;
use super::config::CANCEL_GRACE_MS;
use super::convert;
use super::frame::{Defect, Frames, PAYLOAD_BYTES_MAX};
use super::messages::{self, Out};
use super::read::{self, Cancel, Message, Request};
use super::refusals::{Code, Ids, Refusal};

pub(super) use self::idle::IDLE_MS;
use self::idle::Idle;

/// The most requests in flight on one connection.
pub(super) const IN_FLIGHT_MAX: usize = 64;

/// How long a guest may take to stop after its grace period before we answer without it.
const STOP_LATE_MS: u64 = 250;

/// How long guests may take to stop when the host stops, in milliseconds.
const SHUTDOWN_MS: u64 = 100;

/// How long before its deadline a request is answered, in milliseconds: 1 % of its time, but at
/// least this. The minimum can be configured.
pub(super) const MARGIN_MS_MIN: u64 = 20;
/// The upper limit of that margin.
pub(super) const MARGIN_MS_MAX: u64 = 250;

/// The space an outcome needs besides its result, with ids at their longest and escaped, in bytes.
const OVERHEAD_BYTES: u64 = 64 << 10;

/// What the session asks the host to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WorkerEffect {
    Start(Tag, Box<ForeignJob>),
    /// Stop an execution.
    Stop {
        tag: Tag,
        /// How long the guest may take to stop by itself, in milliseconds.
        grace_ms: u64,
        why: Stop,
    },
}

/// The end of an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExecutionEnd {
    /// The execution has ended.
    Ended(Outcome),
    /// There was no room for the execution.
    Busy,
}

/// What the host reports to the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WorkerEvent {
    /// An execution is over.
    Answer(Tag, ExecutionEnd),
    /// The host stops: all guests are stopped, and nothing new is started.
    Stop,
    /// The host ends: remaining requests are answered, and all connections are closed.
    End,
}

/// What is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    /// How long before a deadline a request is answered at least, in milliseconds.
    pub(super) margin_ms_min: u64,
    /// After how long a connection without requests is closed, in milliseconds.
    pub(super) idle_ms: u64,
    /// Whether a cancel may name requests of other users of this machine.
    pub(super) cancels_for_all: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            margin_ms_min: MARGIN_MS_MIN,
            idle_ms: IDLE_MS,
            cancels_for_all: false,
        }
    }
}

/// All connections of one listener and their executions.
#[derive(Debug)]
pub(super) struct Worker {
    rules: Rules,
    links: BTreeMap<Link, usize>,
    peers: BTreeMap<Link, Peer>,
    idle: Idle,
    runs: BTreeMap<Tag, Run>,
    by_request: BTreeMap<String, BTreeSet<Tag>>,
    by_job: BTreeMap<String, BTreeSet<Tag>>,
    due: BTreeSet<(Time, Tag)>,
    tags_made: u64,
    stopping: bool,
}

/// One execution, until its guest has stopped.
#[derive(Debug)]
struct Run {
    ids: Ids,
    /// The links that wait for the outcome, once for each request.
    waiting: Vec<Link>,
    /// What ends the execution before its outcome does, if anything.
    ending: Option<Ending>,
    /// When to answer without an outcome.
    answer_at: Option<Time>,
    answered: bool,
}

/// What came before the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Cancel { hard: bool },
    Shutdown,
    Gone,
}

/// The name of an execution's span, as documented.
const SPAN: &str = "rrq.runner";

type WorkerActions = Actions<Out, WorkerEffect>;

impl StreamSession for Worker {
    const ASKS_FOR_PEERS: bool = true;
    type Framing = Frames;

    fn read(frame: Result<Bytes, Defect>) -> Self::In {
        read::for_worker(frame.as_deref().map_err(Clone::clone))
    }

    fn write(message: &Out, out: &mut BytesMut) {
        messages::put(message, out);
    }

    fn on_peer(&mut self, link: Link, peer: Peer) {
        self.peers.insert(link, peer);
    }
}

impl Session for Worker {
    const WIRE: &'static str = WIRE;
    type In = Result<Message, Refusal>;
    type Out = Out;
    type Effect = WorkerEffect;
    type Event = WorkerEvent;

    fn on_open(&mut self, now: Time, link: Link, _todo: &mut WorkerActions) {
        self.links.insert(link, 0);
        self.idle.begin(now, link);
    }

    fn on_message(
        &mut self,
        at: Moment,
        link: Link,
        message: Self::In,
        actions: &mut WorkerActions,
    ) {
        if !self.links.contains_key(&link) {
            return;
        }
        match message {
            Ok(Message::Request(request)) => self.on_request(at, link, *request, actions),
            Ok(Message::Cancel(cancel)) => self.on_cancel(at.now, link, &cancel, actions),
            Err(refusal) => self.refuse(at.now, link, &refusal, actions),
        }
    }

    fn on_event(&mut self, at: Moment, event: WorkerEvent, actions: &mut WorkerActions) {
        match event {
            WorkerEvent::Answer(tag, answer) => self.on_answer(at.now, tag, &answer, actions),
            WorkerEvent::Stop => self.on_stop(at.now, actions),
            WorkerEvent::End => self.on_end(actions),
        }
    }

    fn on_closed(&mut self, _now: Time, link: Link, actions: &mut WorkerActions) {
        self.peers.remove(&link);
        self.idle.end(link);
        if self.links.remove(&link).is_none() {
            return;
        }
        let mut left = Vec::new();
        for (tag, run) in &mut self.runs {
            run.waiting.retain(|waiting| *waiting != link);
            if run.waiting.is_empty() && !run.answered && run.ending != Some(Ending::Gone) {
                run.ending = Some(Ending::Gone);
                left.push(*tag);
            }
        }
        for tag in left {
            self.forget_ids(tag);
            self.disarm(tag);
            actions.effect(WorkerEffect::Stop {
                tag,
                grace_ms: CANCEL_GRACE_MS,
                why: Stop::Disconnected,
            });
        }
    }

    fn wakeup(&self) -> Option<Time> {
        let due = self.due.first().map(|(at, _)| *at);
        let idle = self.idle.due(self.links.len());
        [due, idle].into_iter().flatten().min()
    }

    fn on_wakeup(&mut self, now: Time, actions: &mut WorkerActions) {
        while let Some((at, tag)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, tag));
            let why = match self.runs.get_mut(&tag) {
                Some(run) => {
                    run.answer_at = None;
                    match run.ending {
                        Some(Ending::Cancel { .. }) => Stop::Cancelled,
                        Some(Ending::Shutdown) => Stop::ShuttingDown,
                        Some(Ending::Gone) => Stop::Disconnected,
                        None => Stop::Deadline,
                    }
                }
                None => continue,
            };
            self.answer(tag, None, actions);
            let grace_ms = 0;
            actions.effect(WorkerEffect::Stop { tag, grace_ms, why });
        }
        while let Some(link) = self.idle.next_over(now, self.links.len()) {
            actions.close(link);
            // What was already read from it is dropped.
            self.on_closed(now, link, actions);
        }
    }

    fn is_idle(&self) -> bool {
        self.runs.is_empty()
    }
}

impl Default for Worker {
    fn default() -> Self {
        Self::new(Rules::default())
    }
}

impl Worker {
    pub(super) fn new(mut rules: Rules) -> Self {
        rules.margin_ms_min = rules.margin_ms_min.clamp(MARGIN_MS_MIN, MARGIN_MS_MAX);
        Self {
            rules,
            links: BTreeMap::new(),
            peers: BTreeMap::new(),
            idle: Idle::new(rules.idle_ms),
            runs: BTreeMap::new(),
            by_request: BTreeMap::new(),
            by_job: BTreeMap::new(),
            due: BTreeSet::new(),
            tags_made: 0,
            stopping: false,
        }
    }

    /// Returns whether all requests are answered. Guests may still be stopping.
    pub(super) fn is_answered(&self) -> bool {
        let mut runs = self.runs.values();
        runs.all(|run| run.answered || run.waiting.is_empty())
    }

    fn refuse(&mut self, now: Time, link: Link, refusal: &Refusal, actions: &mut WorkerActions) {
        actions.count(refusal.code.as_str());
        if let Some(answer) = refusal.answer() {
            actions.send(link, answer);
        }
        if refusal.is_fatal() {
            actions.close(link);
            // Messages that were already read from it are dropped.
            self.on_closed(now, link, actions);
        }
    }

    fn on_request(
        &mut self,
        at: Moment,
        link: Link,
        request: Request,
        actions: &mut WorkerActions,
    ) {
        let ids = request.ids.clone();
        let in_flight = self.links.get(&link).copied().unwrap_or_default();
        if self.stopping {
            let message = "Runner is shutting down";
            actions.send(link, convert::error(&ids, Some("runner_stopping"), message));
            return;
        }
        if in_flight >= IN_FLIGHT_MAX {
            actions.count(Code::Busy.as_str());
            actions.send(link, convert::busy(&ids));
            return;
        }
        if let Some(tag) = self.same(link, &ids)
            && let Some(run) = self.runs.get_mut(&tag)
        {
            run.waiting.push(link);
            self.links.insert(link, in_flight + 1);
            self.idle.end(link);
            return;
        }
        let Some(deadline) = Deadline::of(at, request.deadline, self.rules.margin_ms_min) else {
            actions.send(link, convert::timed_out(&ids, "Job deadline exceeded"));
            return;
        };
        let Ok(handler) = request.function.parse::<Name>() else {
            actions.send(link, convert::handler_not_found(&ids, &request.function));
            return;
        };
        self.links.insert(link, in_flight + 1);
        self.idle.end(link);
        let tag = Tag(self.tags_made);
        self.tags_made += 1;
        self.remember(tag, ids, link, deadline.answer_at);
        let job = foreign_job(request, handler, deadline.passes_at);
        actions.effect(WorkerEffect::Start(tag, Box::new(job)));
    }

    /// Finds the unanswered execution of the same request of the same user.
    fn same(&self, link: Link, ids: &Ids) -> Option<Tag> {
        let tags = self.by_request.get(&ids.request)?;
        let is_it = |run: &Run| run.ids.job == ids.job && self.is_of_peer(run, link);
        let mut tags = tags.iter().copied();
        tags.find(|tag| self.runs.get(tag).is_some_and(is_it))
    }

    /// Returns whether the peer of `link` has sent the request.
    fn is_of_peer(&self, run: &Run, link: Link) -> bool {
        let peer = self.peers.get(&link);
        let mut waiting = run.waiting.iter();
        waiting.any(|other| *other == link || self.peers.get(other) == peer)
    }

    fn remember(&mut self, tag: Tag, ids: Ids, link: Link, answer_at: Option<Time>) {
        let by_request = self.by_request.entry(ids.request.clone()).or_default();
        by_request.insert(tag);
        self.by_job.entry(ids.job.clone()).or_default().insert(tag);
        self.due.extend(answer_at.map(|at| (at, tag)));
        let run = Run {
            ids,
            waiting: vec![link],
            ending: None,
            answer_at,
            answered: false,
        };
        self.runs.insert(tag, run);
    }

    fn on_cancel(&mut self, now: Time, link: Link, cancel: &Cancel, actions: &mut WorkerActions) {
        let tags = match &cancel.request {
            Some(request) => self.by_request.get(request),
            None => self.by_job.get(&cancel.job),
        };
        let hard = cancel.hard_kill;
        for tag in tags.cloned().unwrap_or_default() {
            let is_allowed = self.rules.cancels_for_all
                || self
                    .runs
                    .get(&tag)
                    .is_some_and(|run| self.is_of_peer(run, link));
            if !is_allowed {
                actions.count(Code::CancelPeer.as_str());
                continue;
            }
            let Some(run) = self.runs.get_mut(&tag) else {
                continue;
            };
            match run.ending {
                None => {}
                Some(Ending::Cancel { hard: false }) if hard => {}
                Some(_) => continue,
            }
            run.ending = Some(Ending::Cancel { hard });
            let grace_ms = if hard { 0 } else { CANCEL_GRACE_MS };
            self.answer_by(tag, now.plus_ms(grace_ms + STOP_LATE_MS));
            actions.effect(WorkerEffect::Stop {
                tag,
                grace_ms,
                why: Stop::Cancelled,
            });
        }
    }

    fn on_answer(
        &mut self,
        now: Time,
        tag: Tag,
        answer: &ExecutionEnd,
        actions: &mut WorkerActions,
    ) {
        self.answer(tag, Some(answer), actions);
        self.disarm(tag);
        let Some(run) = self.runs.remove(&tag) else {
            return;
        };
        for link in run.waiting {
            if let Some(in_flight) = self.links.get_mut(&link) {
                *in_flight -= 1;
                if *in_flight == 0 && !self.stopping {
                    self.idle.begin(now, link);
                }
            }
        }
    }

    fn on_stop(&mut self, now: Time, actions: &mut WorkerActions) {
        self.stopping = true;
        let tags: Vec<Tag> = self.runs.keys().copied().collect();
        for tag in tags {
            if let Some(run) = self.runs.get_mut(&tag)
                && !run.answered
            {
                run.ending.get_or_insert(Ending::Shutdown);
                self.answer_by(tag, now.plus_ms(SHUTDOWN_MS));
            }
            actions.effect(WorkerEffect::Stop {
                tag,
                grace_ms: 0,
                why: Stop::ShuttingDown,
            });
        }
    }

    fn on_end(&mut self, actions: &mut WorkerActions) {
        let tags: Vec<Tag> = self.runs.keys().copied().collect();
        for tag in tags {
            self.answer(tag, None, actions);
            self.disarm(tag);
        }
        self.idle.clear();
        for link in self.links.keys() {
            actions.close(*link);
        }
    }

    /// Answers all waiting requests, once: with what came before the outcome, else with `answer`,
    /// else with a timeout.
    fn answer(&mut self, tag: Tag, answer: Option<&ExecutionEnd>, actions: &mut WorkerActions) {
        let Some(run) = self.runs.get_mut(&tag).filter(|run| !run.answered) else {
            return;
        };
        run.answered = true;
        let ids = &run.ids;
        let out = match (run.ending, answer) {
            (Some(Ending::Cancel { .. }), _) => convert::cancelled(ids),
            (Some(Ending::Shutdown), _) => {
                convert::error(ids, Some("runner_stopping"), "Runner is shutting down")
            }
            (_, Some(ExecutionEnd::Ended(outcome))) => convert::response(ids, outcome),
            (_, Some(ExecutionEnd::Busy)) => {
                actions.count(Code::Busy.as_str());
                convert::busy(ids)
            }
            (_, None) => convert::timed_out(ids, "Job execution timed out."),
        };
        for link in &run.waiting {
            actions.send(*link, out.clone());
        }
        self.forget_ids(tag);
    }

    /// Makes sure that an unanswered execution is answered by `at`.
    fn answer_by(&mut self, tag: Tag, at: Time) {
        let Some(run) = self.runs.get_mut(&tag) else {
            return;
        };
        if run.answered || run.waiting.is_empty() || run.answer_at.is_some_and(|old| old <= at) {
            return;
        }
        if let Some(old) = run.answer_at.replace(at) {
            self.due.remove(&(old, tag));
        }
        self.due.insert((at, tag));
    }

    fn disarm(&mut self, tag: Tag) {
        if let Some(at) = self.runs.get_mut(&tag).and_then(|run| run.answer_at.take()) {
            self.due.remove(&(at, tag));
        }
    }

    /// Forgets the ids, so that no message of a peer refers to this execution any more.
    fn forget_ids(&mut self, tag: Tag) {
        let Some(run) = self.runs.get(&tag) else {
            return;
        };
        for (index, key) in [
            (&mut self.by_request, &run.ids.request),
            (&mut self.by_job, &run.ids.job),
        ] {
            if let Some(tags) = index.get_mut(key) {
                tags.remove(&tag);
                if tags.is_empty() {
                    index.remove(key);
                }
            }
        }
    }
}

/// When a request must be answered, and when its guest must have stopped.
struct Deadline {
    answer_at: Option<Time>,
    passes_at: Option<Time>,
}

impl Deadline {
    /// Converts the orchestrator's deadline to host time. Returns `None` if no time is left.
    fn of(at: Moment, deadline: Option<Time>, margin_ms_min: u64) -> Option<Self> {
        let Some(deadline) = deadline else {
            return Some(Self {
                answer_at: None,
                passes_at: None,
            });
        };
        let left_ms = deadline.since_ms(at.wall);
        let margin_ms = (left_ms / 100).clamp(margin_ms_min, MARGIN_MS_MAX);
        let usable_ms = left_ms.checked_sub(margin_ms).filter(|ms| *ms > 0)?;
        Some(Self {
            answer_at: Some(at.now.plus_ms(usable_ms)),
            passes_at: Some(at.now.plus_ms(left_ms)),
        })
    }
}

fn foreign_job(request: Request, handler: Name, deadline: Option<Time>) -> ForeignJob {
    let correlated = |(key, value): (String, String)| (format!("{CORRELATION}{key}"), value);
    ForeignJob {
        wire: WIRE,
        external_id: request.ids.job,
        request_id: request.ids.request,
        handler,
        params: request.params,
        kept_params: None,
        queue: request.queue,
        attempt: request.attempt,
        enqueued_at: request.enqueued_at,
        deadline,
        timeout_ms: None,
        trace: request.trace,
        worker_id: request.worker_id,
        attributes: request.correlation.into_iter().map(correlated).collect(),
        env: Vec::new(),
        wants_log: false,
        span: SPAN,
        result_bytes_max: PAYLOAD_BYTES_MAX as u64 - OVERHEAD_BYTES,
    }
}
