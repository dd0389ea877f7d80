//! All decisions of the orchestrator role: which attempts are at workers or on their way, what becomes of
//! them, and how callbacks are answered. Pure.

mod callbacks;
mod deliver;
mod reports;

use std::collections::{BTreeMap, BTreeSet};

use host_core::cell::{Level, LogLine, LogSource};
use host_core::id::{JobId, LeaseId};
use host_core::json::JsonText;
use host_core::lease::Fence;
use host_core::name::Name;
use host_core::port::Tag;
use host_core::port::lease::{
    GrantedLease, LeaseError, LeaseMessage, Resumed, Standing, StoredJob,
};
use host_core::time::Time;
use host_wire_kit::http_client::{Answer, BaseUrl, RequestError};
use host_wire_kit::leases::LeaseEvent;
use host_wire_kit::session::{ActionsOf, Link, Moment, Session};

use self::callbacks::Lookup;
use self::reports::PendingMessage;
use super::answers::AnswerOut;
use super::attempts::{Attempt, Attempts, Call};
use super::envelope::{self, Dispatch};
use super::read::Callback;
use super::workers::{Answers, Worker};
use crate::NAME;
use crate::refusals::WireRefusal;
use crate::settings::{OrchestratorConfig, Times};

/// How long a worker may take to answer a dispatch after its last callback, in milliseconds.
const ANSWER_MS: u64 = 60_000;

/// How long after a failure leases for a worker are requested again, in milliseconds.
const RESUME_PAUSE_MS: u64 = 250;

/// A report from the host.
#[derive(Debug)]
pub(super) enum Event {
    /// Workers can call back here from now on.
    Start(BaseUrl),
    /// The attempts of a worker that were leased before the host restarted.
    Resumed(Name, Result<Vec<Resumed>, LeaseError>),
    /// Attempts for a worker; none if the host stops.
    Granted(Tag, Name, Vec<GrantedLease>),
    /// The answer to a message about a lease.
    Answered(Tag, Result<Standing, LeaseError>),
    /// A job that was looked up.
    Read(Tag, Result<Option<Box<StoredJob>>, LeaseError>),
    /// The answer to a dispatch.
    Dispatched(Tag, Result<Answer, RequestError>),
    Lease(LeaseEvent),
    Stop,
}

impl From<LeaseEvent> for Event {
    fn from(event: LeaseEvent) -> Self {
        Self::Lease(event)
    }
}

/// A request to the host.
#[derive(Debug)]
pub(super) enum Effect {
    /// Take over the attempts of a worker.
    Resume(Name),
    /// Ask for attempts for this many slots of a worker.
    Ask(Tag, Name, usize),
    Withdraw(Tag),
    /// Send a message about a lease.
    Send {
        tag: Tag,
        job: JobId,
        fence: Fence,
        message: Box<LeaseMessage>,
    },
    Read(Tag, JobId),
    /// Send an attempt to its worker.
    Dispatch(Tag, Box<Dispatch>),
    /// Drop a dispatch that has no answer yet.
    Abort(Tag),
    /// Keep a line in the log of an attempt.
    Log(Box<Noted>),
}

/// A line for the log of an attempt.
#[derive(Debug)]
pub(super) struct Noted {
    pub(super) job: JobId,
    pub(super) attempt: u32,
    pub(super) granted_at: Time,
    pub(super) line: LogLine,
}

/// What is due at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// Continue the delivery of an attempt.
    Deliver(JobId),
    /// Ask again for the attempts of a worker that were leased before the host restarted.
    Resume(Name),
    /// Send a worker another dispatch, to see whether it can be reached.
    Probe(Name),
    /// Drop a dispatch whose attempt has ended.
    Drop(Tag),
    /// Forget an attempt that another node has granted: that one may have ended it.
    Forget(JobId, LeaseId),
}

type Actions = ActionsOf<Orchestrator>;

/// All workers and their attempts.
#[derive(Debug)]
pub(super) struct Orchestrator {
    times: Times,
    /// What workers call back, once it is known.
    base: Option<BaseUrl>,
    workers: BTreeMap<Name, Worker>,
    pub(super) attempts: Attempts,
    /// The messages about leases that the host has not answered.
    sent: BTreeMap<Tag, PendingMessage>,
    /// The callbacks about attempts that are not current here, which the host has not answered.
    past: BTreeMap<Tag, Box<Call>>,
    /// Why jobs are being looked up.
    lookups: BTreeMap<Tag, Lookup>,
    /// The jobs of the dispatches that have no answer yet.
    pub(super) dispatches: BTreeMap<Tag, JobId>,
    timers: BTreeSet<(Time, Timer)>,
    is_stopping: bool,
    tags_made: u64,
}

impl Orchestrator {
    pub(super) fn new(config: &OrchestratorConfig) -> Self {
        let workers = config
            .workers
            .iter()
            .map(|(name, it)| (name.clone(), Worker::new(it.in_flight_max)));
        Self {
            times: config.times,
            base: None,
            workers: workers.collect(),
            attempts: Attempts::default(),
            sent: BTreeMap::new(),
            past: BTreeMap::new(),
            lookups: BTreeMap::new(),
            dispatches: BTreeMap::new(),
            timers: BTreeSet::new(),
            is_stopping: false,
            tags_made: 0,
        }
    }

    /// Returns how a worker answers, and how many attempts it has.
    pub(super) fn worker(&self, name: &Name) -> Option<(Answers, usize)> {
        let worker = self.workers.get(name)?;
        Some((worker.answers.clone(), worker.in_flight))
    }

    fn tag(&mut self) -> Tag {
        self.tags_made += 1;
        Tag(self.tags_made)
    }

    /// Asks for attempts for the free slots of a worker. A request that waits already is kept: if it names
    /// fewer slots, another one follows its answer.
    fn ask(&mut self, name: &Name, actions: &mut Actions) {
        let Some(worker) = self.workers.get_mut(name) else {
            return;
        };
        let free = if worker.is_resumed && !self.is_stopping {
            worker.free_slots(|| self.attempts.is_delivering(name))
        } else {
            0
        };
        if let Some((tag, slots)) = worker.ask {
            if slots <= free {
                return;
            }
            worker.ask = None;
            actions.effect(Effect::Withdraw(tag));
        }
        if free > 0 {
            self.tags_made += 1;
            let tag = Tag(self.tags_made);
            worker.ask = Some((tag, free));
            actions.effect(Effect::Ask(tag, name.clone(), free));
        }
    }

    fn on_resumed(
        &mut self,
        now: Time,
        name: Name,
        resumed: Result<Vec<Resumed>, LeaseError>,
        actions: &mut Actions,
    ) {
        let Ok(resumed) = resumed else {
            let at = now.plus_ms(RESUME_PAUSE_MS);
            self.timers.insert((at, Timer::Resume(name)));
            return;
        };
        for Resumed {
            granted,
            granted_at,
            cancel,
            ..
        } in resumed
        {
            self.add(&name, granted_at, &granted, actions);
            let (job, lease) = (granted.job, granted.lease);
            if granted.ack_by.is_none() {
                if let Some(attempt) = self.attempts.with_lease(job, lease) {
                    attempt.is_begun = true;
                }
            } else if cancel.is_some() {
                self.cancel(job, lease, actions);
            } else {
                // The worker may have received it already.
                self.deliver(now, granted, true, actions);
            }
        }
        if let Some(worker) = self.workers.get_mut(&name) {
            worker.is_resumed = true;
        }
        self.ask(&name, actions);
    }

    fn on_granted(
        &mut self,
        now: Time,
        tag: Tag,
        name: &Name,
        granted: Vec<GrantedLease>,
        actions: &mut Actions,
    ) {
        let worker = self.workers.get_mut(name);
        if let Some(worker) = worker.filter(|it| it.ask.is_some_and(|(asked, _)| asked == tag)) {
            worker.ask = None;
        }
        if granted.is_empty() {
            return;
        }
        for granted in granted {
            self.add(name, now, &granted, actions);
            self.deliver(now, granted, false, actions);
        }
        self.ask(name, actions);
    }

    /// Adds an attempt that was granted at `from`, unless a callback has brought it up already.
    fn add(&mut self, name: &Name, from: Time, granted: &GrantedLease, actions: &mut Actions) {
        let (job, lease, assignment) = (granted.job, granted.lease, &granted.assignment);
        if self.attempts.with_lease(job, lease).is_none() {
            let scope = envelope::scope(job, assignment.attempt, &assignment.attributes);
            let due = from.plus_ms(envelope::timeout_ms(&self.times, assignment.timeout_ms));
            let (name, key) = (Some(name.clone()), assignment.handler.clone());
            self.insert(Attempt::new(lease, name, scope, key, from, due), actions);
        }
        if let Some(attempt) = self.attempts.get(job)
            && let Some(worker) = self.workers.get_mut(name)
            && !attempt.has_slot
        {
            attempt.has_slot = true;
            worker.in_flight += 1;
        }
    }

    /// Adds an attempt in place of an earlier one of its job.
    fn insert(&mut self, attempt: Attempt, actions: &mut Actions) {
        if let Some(earlier) = self.attempts.get(attempt.scope.job) {
            let (job, lease) = (earlier.scope.job, earlier.lease);
            self.end(job, lease, actions);
        }
        self.attempts.insert(attempt);
    }

    /// Removes an attempt whose lease is over.
    fn end(&mut self, job: JobId, lease: LeaseId, actions: &mut Actions) {
        let Some(attempt) = self.attempts.remove(job, lease) else {
            return;
        };
        if let Some(delivery) = attempt.delivery {
            self.timers.remove(&(delivery.at, Timer::Deliver(job)));
        }
        if let Some(tag) = attempt.request {
            self.abort(tag, actions);
        }
        if let Some(name) = attempt.executor.filter(|_| attempt.has_slot) {
            if let Some(worker) = self.workers.get_mut(&name) {
                worker.in_flight = worker.in_flight.saturating_sub(1);
            }
            self.ask(&name, actions);
        }
    }

    /// Removes an attempt whose worker has called back last. It may answer the dispatch only now, and would
    /// take a closed connection for a failure.
    fn end_called(&mut self, now: Time, job: JobId, lease: LeaseId, actions: &mut Actions) {
        let attempt = self.attempts.with_lease(job, lease);
        if let Some(tag) = attempt.and_then(|attempt| attempt.request.take()) {
            self.timers
                .insert((now.plus_ms(ANSWER_MS), Timer::Drop(tag)));
        }
        self.end(job, lease, actions);
    }

    /// Drops a dispatch that has no answer yet.
    fn abort(&mut self, tag: Tag, actions: &mut Actions) {
        if self.dispatches.remove(&tag).is_some() {
            actions.effect(Effect::Abort(tag));
        }
    }

    /// Keeps what a worker says of itself in the log of its attempt.
    fn note(&mut self, now: Time, call: &Call, words: &str, actions: &mut Actions) {
        let Some(attempt) = self.attempts.get(call.scope.job) else {
            return;
        };
        let fields = call.claims.iter();
        actions.effect(Effect::Log(Box::new(Noted {
            job: attempt.scope.job,
            attempt: attempt.scope.attempt,
            granted_at: attempt.granted_at,
            line: LogLine {
                at_ms: now.since_ms(attempt.granted_at),
                level: Level::Info,
                source: LogSource::Host,
                message: words.to_owned(),
                fields: fields
                    .map(|(name, claim)| ((*name).to_owned(), JsonText::string(claim)))
                    .collect(),
            },
        })));
    }

    fn on_lease(&mut self, event: LeaseEvent, actions: &mut Actions) {
        match event {
            LeaseEvent::Cancelled { job, lease, .. } => self.cancel(job, lease, actions),
            LeaseEvent::Revoked { job, lease, .. } => self.end(job, lease, actions),
        }
    }

    /// Withdraws requests, gives back what no worker has received, and leaves the rest to its worker.
    fn stop(&mut self, actions: &mut Actions) {
        self.is_stopping = true;
        self.timers.clear();
        let names: Vec<Name> = self.workers.keys().cloned().collect();
        for name in names {
            self.ask(&name, actions);
        }
        for job in self.attempts.jobs() {
            self.stop_delivery(job, actions);
        }
        while let Some((tag, _)) = self.dispatches.pop_first() {
            actions.effect(Effect::Abort(tag));
        }
    }
}

impl Session for Orchestrator {
    const WIRE: &'static str = NAME;
    type In = Callback;
    type Out = Result<AnswerOut, WireRefusal>;
    type Effect = Effect;
    type Event = Event;

    fn on_message(&mut self, _: Moment, link: Link, callback: Callback, actions: &mut Actions) {
        self.on_callback(link, callback, actions);
    }

    fn on_event(&mut self, at: Moment, event: Event, actions: &mut Actions) {
        let now = at.now;
        match event {
            Event::Start(base) => {
                self.base = Some(base);
                for name in self.workers.keys() {
                    actions.effect(Effect::Resume(name.clone()));
                }
            }
            Event::Resumed(name, resumed) => self.on_resumed(now, name, resumed, actions),
            Event::Granted(tag, name, granted) => {
                self.on_granted(now, tag, &name, granted, actions);
            }
            Event::Answered(tag, answer) => self.on_answer(at, tag, answer, actions),
            Event::Read(tag, kept) => {
                let kept = kept.as_ref().map(|kept| kept.as_deref());
                self.on_read(now, tag, kept, actions);
            }
            Event::Dispatched(tag, answer) => self.on_dispatched(now, tag, answer, actions),
            Event::Lease(event) => self.on_lease(event, actions),
            Event::Stop => self.stop(actions),
        }
    }

    /// Work that was begun for a callback continues without it.
    fn on_closed(&mut self, _: Time, _: Link, _: &mut Actions) {}

    fn wakeup(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    fn on_wakeup(&mut self, now: Time, actions: &mut Actions) {
        while let Some((at, timer)) = self.timers.first().cloned()
            && at <= now
        {
            self.timers.pop_first();
            match timer {
                Timer::Deliver(job) => self.go_on(now, job, actions),
                Timer::Resume(name) => actions.effect(Effect::Resume(name)),
                Timer::Probe(name) => {
                    if let Some(worker) = self.workers.get_mut(&name) {
                        worker.probe();
                    }
                    self.ask(&name, actions);
                }
                Timer::Drop(tag) => self.abort(tag, actions),
                Timer::Forget(job, lease) => {
                    let attempt = self.attempts.with_lease(job, lease);
                    if attempt.is_some_and(|attempt| !attempt.has_slot) {
                        self.end(job, lease, actions);
                    }
                }
            }
        }
    }

    /// Returns whether the host has answered all messages about leases.
    fn is_idle(&self) -> bool {
        self.sent.is_empty() && self.past.is_empty()
    }
}
