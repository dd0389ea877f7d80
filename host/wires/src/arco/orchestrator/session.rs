//! All decisions of the orchestrator role: which attempts are out there, what becomes of them, and what
//! callbacks are answered. Pure.

mod callbacks;
mod deliver;
mod turns;

use std::collections::{BTreeMap, BTreeSet};

use host_core::id::{JobId, LeaseId};
use host_core::name::Name;
use host_core::port::Tag;
use host_core::port::lease::{Granted, Kept, LeaseError, LeaseMessage, Resumed, Standing};
use host_core::time::Time;

use self::callbacks::Reading;
use self::turns::Tell;
use super::answers::AnswerOut;
use super::attempts::{Attempt, Attempts, Turn};
use super::envelope::{self, Dispatch};
use super::read::Callback;
use super::workers::{Answers, Worker};
use crate::arco::NAME;
use crate::arco::refusals::Refused;
use crate::arco::settings::{OrchestratorConfig, Times};
use crate::kit::http_client::{Answer, BaseUrl, RequestError};
use crate::kit::leases::LeaseEvent;
use crate::kit::session::{ActionsOf, Link, Moment, Session};

/// The pause after the host had no answer, in milliseconds.
const PAUSE_MS: u64 = 250;

/// What the host says.
#[derive(Debug)]
pub(super) enum Event {
    /// Workers can call back here from now on.
    Start(BaseUrl),
    /// The attempts of a worker that were out there when the host stopped.
    Resumed(Name, Result<Vec<Resumed>, LeaseError>),
    /// An attempt, or nothing because the wait is over.
    Granted(Tag, Name, Option<Box<Granted>>),
    /// The answer to a message about a lease.
    Answered(Tag, Result<Standing, LeaseError>),
    /// A job as it is kept.
    Read(Tag, Result<Option<Box<Kept>>, LeaseError>),
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

/// What the host is asked to do.
#[derive(Debug)]
pub(super) enum Effect {
    /// Take over the attempts of a worker.
    Resume(Name),
    /// Ask for an attempt for a worker.
    Ask(Tag, Name),
    Withdraw(Tag),
    /// Send a message about a lease.
    Tell {
        tag: Tag,
        job: JobId,
        lease: LeaseId,
        message: Box<LeaseMessage>,
    },
    Read(Tag, JobId),
    /// Send an attempt to its worker.
    Dispatch(Tag, Box<Dispatch>),
    /// Drop a dispatch that has no answer yet.
    Abort(Tag),
}

/// What is to be done at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// Go on with the delivery of an attempt.
    Deliver(JobId),
    /// Ask for attempts again.
    Ask(Name),
    /// Ask again what was out there.
    Resume(Name),
}

type Actions = ActionsOf<Orchestrator>;

/// All workers and their attempts.
#[derive(Debug)]
pub(super) struct Orchestrator {
    times: Times,
    /// What workers call back, once it is known.
    base: Option<BaseUrl>,
    workers: BTreeMap<Name, Worker>,
    attempts: Attempts,
    /// The messages about leases that the host has not answered.
    tells: BTreeMap<Tag, Tell>,
    /// Why jobs are being read.
    reads: BTreeMap<Tag, Reading>,
    /// Whose the dispatches are that have no answer yet.
    pub(super) dispatches: BTreeMap<Tag, JobId>,
    timers: BTreeSet<(Time, Timer)>,
    is_stopping: bool,
    tags_made: u64,
}

impl Orchestrator {
    pub(super) fn new(config: &OrchestratorConfig) -> Self {
        let workers = config.workers.iter();
        let workers = workers.map(|(name, it)| (name.clone(), Worker::new(it.in_flight_max)));
        Self {
            times: config.times,
            base: None,
            workers: workers.collect(),
            attempts: Attempts::default(),
            tells: BTreeMap::new(),
            reads: BTreeMap::new(),
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

    /// Asks for as many attempts as a worker may have now.
    fn ask(&mut self, name: &Name, actions: &mut Actions) {
        let Some(worker) = self.workers.get_mut(name) else {
            return;
        };
        let room = if worker.is_paused || self.is_stopping {
            0
        } else {
            worker.room(|| self.attempts.is_delivering(name))
        };
        while worker.asks.len() > room
            && let Some(tag) = worker.asks.pop_last()
        {
            actions.effect(Effect::Withdraw(tag));
        }
        while worker.asks.len() < room {
            self.tags_made += 1;
            let tag = Tag(self.tags_made);
            worker.asks.insert(tag);
            actions.effect(Effect::Ask(tag, name.clone()));
        }
    }

    fn pause(&mut self, now: Time, name: &Name, timer: fn(Name) -> Timer) {
        if let Some(worker) = self.workers.get_mut(name) {
            worker.is_paused = true;
        }
        let at = now.plus_ms(PAUSE_MS);
        self.timers.insert((at, timer(name.clone())));
    }

    fn resume_asking(&mut self, name: &Name, actions: &mut Actions) {
        if let Some(worker) = self.workers.get_mut(name) {
            worker.is_paused = false;
        }
        self.ask(name, actions);
    }

    fn on_resumed(
        &mut self,
        now: Time,
        name: &Name,
        resumed: Result<Vec<Resumed>, LeaseError>,
        actions: &mut Actions,
    ) {
        let Ok(resumed) = resumed else {
            return self.pause(now, name, Timer::Resume);
        };
        for resumed in resumed {
            let (job, from) = (resumed.granted.job, resumed.granted_at);
            let has_begun = resumed.granted.ack_by.is_none();
            self.add(name, from, &resumed.granted, actions);
            if let Some(attempt) = self.attempts.get(job) {
                attempt.has_begun |= has_begun;
                attempt.is_cancelled |= resumed.cancel.is_some();
            }
            // Its worker may have got it already.
            self.deliver(now, resumed.granted, true, actions);
        }
        self.resume_asking(name, actions);
    }

    fn on_granted(
        &mut self,
        now: Time,
        (tag, name): (Tag, &Name),
        granted: Option<Box<Granted>>,
        actions: &mut Actions,
    ) {
        if let Some(worker) = self.workers.get_mut(name) {
            worker.asks.remove(&tag);
        }
        match granted {
            Some(granted) => {
                self.add(name, now, &granted, actions);
                self.deliver(now, *granted, false, actions);
                self.ask(name, actions);
            }
            None => self.pause(now, name, Timer::Ask),
        }
    }

    /// Adds an attempt that was granted at `from`. One that a callback has brought up stays.
    fn add(&mut self, name: &Name, from: Time, granted: &Granted, actions: &mut Actions) {
        let assignment = &granted.assignment;
        let timeout_ms = envelope::timeout_ms(&self.times, assignment.timeout_ms);
        let due = Some(from.plus_ms(timeout_ms));
        if self
            .attempts
            .with_lease(granted.job, granted.lease)
            .is_none()
        {
            let scope = envelope::scope(granted.job, assignment.attempt, &assignment.attributes);
            let task = (scope, assignment.handler.clone());
            self.insert(
                Attempt::new(granted.lease, Some(name.clone()), task),
                actions,
            );
        }
        if let Some(attempt) = self.attempts.get(granted.job)
            && let Some(worker) = self.workers.get_mut(name)
        {
            attempt.due = due;
            worker.in_flight += usize::from(!attempt.has_slot);
            attempt.has_slot = true;
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
            self.dispatches.remove(&tag);
            actions.effect(Effect::Abort(tag));
        }
        if let Some(name) = attempt.executor.filter(|_| attempt.has_slot) {
            if let Some(worker) = self.workers.get_mut(&name) {
                worker.in_flight = worker.in_flight.saturating_sub(1);
            }
            self.ask(&name, actions);
        }
        for turn in attempt.waiting.into_iter().flatten() {
            if let Turn::Callback(call) = turn {
                self.explain(*call, Some(lease), actions);
            }
        }
    }

    fn on_lease(&mut self, now: Time, event: LeaseEvent, actions: &mut Actions) {
        match event {
            LeaseEvent::Cancelled { job, lease, .. } => {
                if let Some(attempt) = self.attempts.with_lease(job, lease) {
                    attempt.is_cancelled = true;
                    self.on_cancelled(now, job, lease, actions);
                }
            }
            LeaseEvent::Revoked { job, lease, .. } => self.end(job, lease, actions),
        }
    }

    /// Withdraws requests, gives back what no worker can have, and leaves the rest to its worker.
    fn stop(&mut self, now: Time, actions: &mut Actions) {
        self.is_stopping = true;
        self.timers.clear();
        let names: Vec<Name> = self.workers.keys().cloned().collect();
        for name in names {
            self.ask(&name, actions);
        }
        for job in self.attempts.jobs() {
            self.stop_delivery(now, job, actions);
        }
    }
}

impl Session for Orchestrator {
    const WIRE: &'static str = NAME;
    type In = Callback;
    type Out = Result<AnswerOut, Refused>;
    type Effect = Effect;
    type Event = Event;

    fn on_message(&mut self, at: Moment, link: Link, callback: Callback, actions: &mut Actions) {
        self.on_callback(at, link, callback, actions);
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
            Event::Resumed(name, resumed) => self.on_resumed(now, &name, resumed, actions),
            Event::Granted(tag, name, granted) => {
                self.on_granted(now, (tag, &name), granted, actions);
            }
            Event::Answered(tag, answer) => self.on_answer(at, tag, answer, actions),
            Event::Read(tag, kept) => self.on_read(at, tag, kept, actions),
            Event::Dispatched(tag, answer) => self.on_dispatched(now, tag, answer, actions),
            Event::Lease(event) => self.on_lease(now, event, actions),
            Event::Stop => self.stop(now, actions),
        }
    }

    /// What was begun for a callback goes on without it.
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
                Timer::Ask(name) => self.resume_asking(&name, actions),
                Timer::Resume(name) => actions.effect(Effect::Resume(name)),
            }
        }
    }

    /// Returns whether the host has answered all messages about leases.
    fn is_idle(&self) -> bool {
        self.tells.is_empty()
    }
}
