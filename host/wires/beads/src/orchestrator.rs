//! The rules of the orchestrator role over all connections: who must wait, who gets a task, and how a task
//! ends. Pure.
//!
//! A worker asks by READY; the host grants a lease for that one connection. Whatever ends the task ends the
//! lease; the host keeps that end until it is stored.

mod worker;

#[cfg(test)]
pub(super) mod tests;

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Bytes, BytesMut};
use host_core::failure::{Failure, FailureKind};
use host_core::id::{JobId, LeaseId};
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_core::port::lease::{AttemptEnd, End};
use host_core::time::Time;
use host_wire_kit::executors::WorkerHealth;
use host_wire_kit::session::{Actions, ActionsOf, Link, Moment, Session};
use host_wire_kit::stream::StreamSession;

use self::worker::{SAME_REQUEST_MS, State, Task, Worker};
use super::WIRE;
use super::frame::{Defect, Messages};
use super::messages::{Out, OutMessage};
use super::read::{In, Kind, Message, Report, read_worker};
use super::refusals::{Code, Refusal};
use super::settings::OrchestratorConfig;

pub(super) use self::worker::worker_name;

/// The reasons of SHUTDOWN. A worker is never sent home because it is idle.
const HOST_STOPS: &str = "user_requested";
const WORKER_FAILS: &str = "error";

/// One request for a lease. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Ask(pub(super) u64);

/// A granted task, in the wire's terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GrantedTask {
    pub(super) job: JobId,
    pub(super) lease: LeaseId,
    /// 0 is the most urgent, 4 the least.
    pub(super) priority: u8,
    pub(super) title: String,
    /// How long the attempt may take, in milliseconds.
    pub(super) timeout_ms: u64,
}

/// An event of the host.
#[derive(Debug)]
pub(super) enum Event {
    /// A lease, or nothing because the wait is over.
    Answered(Ask, Option<GrantedTask>),
    /// The job is cancelled; its worker cannot be notified.
    Cancelled { lease: LeaseId, grace_ms: u64 },
    /// The lease is over.
    Revoked { lease: LeaseId },
    /// The host stops: all workers get SHUTDOWN.
    Stop,
    /// The time to end is over: all connections are closed.
    Cut,
}

/// A request to the host.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Effect {
    /// Ask for a lease for this worker.
    Ask {
        ask: Ask,
        worker: String,
        wait_ms: u64,
    },
    /// The answer to this request is no longer wanted.
    Withdraw(Ask),
    /// Report the end of a lease to the host.
    End(Box<AttemptEnd>),
    /// Log a refused message.
    Warn(Link, Refusal),
    /// Log an event of a worker.
    Note(String, &'static str),
}

/// All workers of one socket.
#[derive(Debug)]
pub(super) struct Orchestrator {
    config: OrchestratorConfig,
    workers: BTreeMap<Link, Worker>,
    /// The numbers of connected workers.
    numbers: BTreeSet<usize>,
    asks: BTreeMap<Ask, Link>,
    asks_made: u64,
    /// Which worker holds a lease.
    leases: BTreeMap<LeaseId, Link>,
    /// When tasks are given up.
    due: BTreeSet<(Time, Link)>,
    is_stopping: bool,
    /// The wall clock minus host time, in milliseconds.
    wall_ahead_ms: i64,
}

type OrchestratorActions = Actions<Out, Effect>;

impl Orchestrator {
    pub(super) fn new(config: OrchestratorConfig, at: Moment) -> Self {
        Self {
            config,
            workers: BTreeMap::new(),
            numbers: BTreeSet::new(),
            asks: BTreeMap::new(),
            asks_made: 0,
            leases: BTreeMap::new(),
            due: BTreeSet::new(),
            is_stopping: false,
            wall_ahead_ms: at.wall.0.saturating_sub(at.now.0),
        }
    }

    /// Returns the state of all workers, in the order of their numbers.
    pub(super) fn health(&self) -> Vec<WorkerHealth> {
        let mut workers: Vec<&Worker> = self.workers.values().collect();
        workers.sort_by_key(|worker| worker.number);
        let is_stopping = self.is_stopping;
        let health = workers.into_iter().map(|worker| worker.health(is_stopping));
        health.collect()
    }

    fn at(&mut self, at: Moment) -> Time {
        self.wall_ahead_ms = at.wall.0.saturating_sub(at.now.0);
        at.now
    }

    fn send(&self, now: Time, link: Link, message: OutMessage, actions: &mut OrchestratorActions) {
        if let Some(worker) = self.workers.get(&link) {
            let out = Out {
                dialect: worker.dialect(),
                at: Time(now.0.saturating_add(self.wall_ahead_ms)),
                worker_id: worker.id(),
                message,
            };
            actions.send(link, out);
        }
    }

    fn wait(&self, now: Time, link: Link, actions: &mut OrchestratorActions) {
        let seconds = self.config.wait_seconds;
        self.send(now, link, OutMessage::Wait { seconds }, actions);
    }

    fn shut_down(
        &self,
        now: Time,
        link: Link,
        reason: &'static str,
        actions: &mut OrchestratorActions,
    ) {
        self.send(now, link, OutMessage::Shutdown { reason }, actions);
    }

    /// Puts a worker into another state and returns the one it was in.
    fn put(&mut self, link: Link, state: State) -> State {
        let Some(worker) = self.workers.get_mut(&link) else {
            return State::Idle;
        };
        let before = std::mem::replace(&mut worker.state, state);
        match &before {
            State::Asking(ask) => {
                self.asks.remove(ask);
            }
            State::Busy(task) => {
                self.leases.remove(&task.lease);
                self.due.remove(&(task.due, link));
            }
            State::Held(until) | State::Resyncing(until) => {
                self.due.remove(&(*until, link));
            }
            State::Idle | State::Stale(_) => {}
        }
        match &worker.state {
            State::Asking(ask) => {
                self.asks.insert(*ask, link);
            }
            State::Busy(task) => {
                self.leases.insert(task.lease, link);
                self.due.insert((task.due, link));
            }
            State::Held(until) | State::Resyncing(until) => {
                self.due.insert((*until, link));
            }
            State::Idle | State::Stale(_) => {}
        }
        before
    }

    /// Reports the end of a task to the host. `number` is that of its worker.
    fn end(task: &Task, number: usize, end: End, actions: &mut OrchestratorActions) {
        actions.effect(Effect::End(Box::new(AttemptEnd {
            job: task.job,
            lease: task.lease,
            worker: worker_name(number),
            end,
        })));
    }

    fn handle_message(
        &mut self,
        now: Time,
        link: Link,
        message: Message,
        actions: &mut OrchestratorActions,
    ) {
        let Some(worker) = self.workers.get_mut(&link) else {
            return;
        };
        if !worker.call(message.worker_id) {
            actions.count(Code::FieldRange.as_str());
            if worker.is_first_bad_name() {
                let name = worker_name(worker.number);
                actions.effect(Effect::Note(
                    name,
                    "sent a worker_id that is not 1–64 characters long; it is shown by its number",
                ));
            }
        }
        match message.kind {
            Kind::Alive => {}
            Kind::Ready => self.ready(now, link, actions),
            Kind::Done(report) => {
                let result = worker.result(report.duration_ms);
                let result = Some(JsonText(result));
                self.reported(now, link, &report, Outcome::Completed { result }, actions);
            }
            Kind::Failed(report, error) => {
                let failure = Failure {
                    retryable: Some(true),
                    ..Failure::new(FailureKind::UserError, error)
                };
                self.reported(now, link, &report, Outcome::Failed(failure), actions);
            }
        }
    }

    fn ready(&mut self, now: Time, link: Link, actions: &mut OrchestratorActions) {
        let Some(worker) = self.workers.get_mut(&link) else {
            return;
        };
        // A READY that arrives while an earlier one is unanswered is the same request.
        if matches!(worker.state, State::Asking(_) | State::Held(_)) {
            return;
        }
        if !worker.asks(now) {
            return;
        }
        let number = worker.number;
        let name = worker_name(number);
        if let State::Busy(task) = self.put(link, State::Idle) {
            actions.effect(Effect::Note(
                name.clone(),
                "sent READY without DONE or FAILED for its task; giving the task back",
            ));
            let lost = End::Lost("it is ready without an end of its task".to_owned());
            Self::end(&task, number, lost, actions);
        }
        if self.is_stopping {
            return self.shut_down(now, link, HOST_STOPS, actions);
        }
        let ask = Ask(self.asks_made);
        self.asks_made += 1;
        self.put(link, State::Asking(ask));
        actions.effect(Effect::Ask {
            ask,
            worker: name,
            wait_ms: self.config.hold_ms,
        });
    }

    /// Handles DONE or FAILED. Neither is answered if the worker holds the task.
    fn reported(
        &mut self,
        now: Time,
        link: Link,
        report: &Report,
        outcome: Outcome,
        actions: &mut OrchestratorActions,
    ) {
        let Some(worker) = self.workers.get_mut(&link) else {
            return;
        };
        match &worker.state {
            State::Busy(task) if task.issue_id == report.issue_id => {
                worker.has_ended();
                let number = worker.number;
                if let State::Busy(task) = self.put(link, State::Idle) {
                    Self::end(&task, number, End::Outcome(outcome), actions);
                }
                return;
            }
            // The worker could not know that it no longer holds the task.
            State::Stale(issue_id) if *issue_id == report.issue_id => {
                self.put(link, State::Idle);
            }
            _ => {
                let text = "DONE or FAILED for a task that the worker does not hold";
                let refusal = Refusal::new(Code::Unexpected, text).of(report.issue_id.as_bytes());
                self.refuse(now, link, refusal, actions);
            }
        }
        self.answer_refused_end(now, link, actions);
    }

    /// Answers a refused end with WAIT. The framed worker sends READY right behind each end and reads one answer
    /// to both: its next READY, or what it has not read yet, has that answer.
    fn answer_refused_end(&mut self, now: Time, link: Link, actions: &mut OrchestratorActions) {
        let Some(worker) = self.workers.get_mut(&link) else {
            return;
        };
        let is_asking = matches!(worker.state, State::Asking(_) | State::Held(_));
        if !worker.is_framed() {
            if is_asking {
                self.withdraw(link, actions);
            }
            return self.wait(now, link, actions);
        }
        if is_asking || matches!(worker.state, State::Busy(_)) {
            worker.answer_ahead(now);
        } else {
            worker.has_ended();
            self.put(link, State::Resyncing(now.plus_ms(SAME_REQUEST_MS)));
        }
    }

    /// Counts a refused message, and closes a connection that sends too many.
    fn refuse(
        &mut self,
        now: Time,
        link: Link,
        refusal: Refusal,
        actions: &mut OrchestratorActions,
    ) {
        actions.count(refusal.code.as_str());
        let Some(worker) = self.workers.get_mut(&link) else {
            return;
        };
        let bad = worker.bad(now);
        if bad.is_shown() {
            actions.effect(Effect::Warn(link, refusal));
        }
        if bad.is_abuse() {
            actions.count(Code::Abuse.as_str());
            let name = worker_name(worker.number);
            actions.effect(Effect::Note(
                name,
                "has sent 100 bad messages within 10 s; closing its connection",
            ));
            self.shut_down(now, link, WORKER_FAILS, actions);
            actions.close(link);
        }
    }

    fn answered(
        &mut self,
        now: Time,
        ask: Ask,
        granted: Option<GrantedTask>,
        actions: &mut OrchestratorActions,
    ) {
        let Some(link) = self.asks.get(&ask).copied() else {
            if let Some(granted) = granted {
                Self::end(&Task::new(now, &granted), 0, End::NoRoom, actions);
            }
            return;
        };
        let Some(granted) = granted else {
            return self.nothing(now, link, actions);
        };
        let task = Task::new(now, &granted);
        let message = OutMessage::Task {
            issue_id: task.issue_id.clone(),
            priority: granted.priority,
            title: granted.title,
        };
        self.put(link, State::Busy(task));
        self.send(now, link, message, actions);
    }

    /// Sends WAIT to a worker. If the host answers early, it is stopping: the worker is about to get
    /// SHUTDOWN, and would not listen after WAIT.
    fn nothing(&mut self, now: Time, link: Link, actions: &mut OrchestratorActions) {
        let ready_at = self
            .workers
            .get(&link)
            .map_or(now, |worker| worker.ready_at);
        let until = ready_at.plus_ms(self.config.hold_ms);
        if now < until {
            self.put(link, State::Held(until));
        } else {
            self.put(link, State::Idle);
            self.wait(now, link, actions);
        }
    }

    /// Forgets that a worker is ready.
    fn withdraw(&mut self, link: Link, actions: &mut OrchestratorActions) {
        if let State::Asking(ask) = self.put(link, State::Idle) {
            actions.effect(Effect::Withdraw(ask));
        }
    }

    /// Gives up the tasks whose time is over, and READYs that were held long enough.
    fn give_up(&mut self, now: Time, actions: &mut OrchestratorActions) {
        while let Some((due, link)) = self.due.first().copied().filter(|(due, _)| *due <= now) {
            self.due.remove(&(due, link));
            let Some(worker) = self.workers.get(&link) else {
                continue;
            };
            let State::Busy(task) = &worker.state else {
                self.put(link, State::Idle);
                self.wait(now, link, actions);
                continue;
            };
            let (number, issue_id) = (worker.number, task.issue_id.clone());
            let State::Busy(task) = self.put(link, State::Stale(issue_id)) else {
                continue;
            };
            if task.is_cancelled {
                let cancelled = Outcome::Cancelled { partial: None };
                Self::end(&task, number, End::Outcome(cancelled), actions);
                continue;
            }
            let message = format!("the worker did not finish within {} ms", task.timeout_ms);
            let failure = Failure::new(FailureKind::TimedOut, message);
            let failed = Outcome::Failed(failure);
            Self::end(&task, number, End::Outcome(failed), actions);
            // Closing the connection is the only signal to the worker, because no message stops a task.
            actions.effect(Effect::Note(
                worker_name(number),
                "has not finished in time; closing its connection",
            ));
            actions.close(link);
        }
    }

    fn cancelled(&mut self, now: Time, lease: LeaseId, grace_ms: u64) {
        let Some(link) = self.leases.get(&lease).copied() else {
            return;
        };
        let worker = self.workers.get_mut(&link);
        if let Some(State::Busy(task)) = worker.map(|worker| &mut worker.state) {
            self.due.remove(&(task.due, link));
            task.is_cancelled = true;
            task.due = task.due.min(now.plus_ms(grace_ms));
            self.due.insert((task.due, link));
        }
    }

    fn stop(&mut self, now: Time, actions: &mut OrchestratorActions) {
        self.is_stopping = true;
        let links: Vec<Link> = self.workers.keys().copied().collect();
        for link in links {
            let is_asking = |it: &Worker| matches!(it.state, State::Asking(_) | State::Held(_));
            if self.workers.get(&link).is_some_and(is_asking) {
                self.withdraw(link, actions);
            }
            self.shut_down(now, link, HOST_STOPS, actions);
        }
    }
}

impl StreamSession for Orchestrator {
    type Framing = Messages;

    fn read(frame: Result<Bytes, Defect>) -> In<Message> {
        read_worker(frame)
    }

    fn write(message: &Out, out: &mut BytesMut) {
        message.write(out);
    }
}

impl Session for Orchestrator {
    const WIRE: &'static str = WIRE;
    type In = In<Message>;
    type Out = Out;
    type Effect = Effect;
    type Event = Event;

    fn on_open(&mut self, now: Time, link: Link, actions: &mut ActionsOf<Self>) {
        // Among one more number than there are workers, one is free.
        let mut numbers = 1..=self.numbers.len() + 1;
        let number = numbers
            .find(|number| !self.numbers.contains(number))
            .unwrap_or(0);
        self.numbers.insert(number);
        self.workers.insert(link, Worker::new(number, now));
        if self.is_stopping {
            actions.close(link);
        }
    }

    fn on_message(
        &mut self,
        at: Moment,
        link: Link,
        input: In<Message>,
        actions: &mut ActionsOf<Self>,
    ) {
        let now = self.at(at);
        if let (Some(worker), Some(dialect)) = (self.workers.get_mut(&link), input.dialect) {
            worker.speaks(dialect);
        }
        match input.message {
            Ok(message) => self.handle_message(now, link, message, actions),
            Err(refusal) => self.refuse(now, link, refusal, actions),
        }
    }

    fn on_event(&mut self, at: Moment, event: Event, actions: &mut ActionsOf<Self>) {
        let now = self.at(at);
        match event {
            Event::Answered(ask, granted) => self.answered(now, ask, granted, actions),
            Event::Cancelled { lease, grace_ms } => self.cancelled(now, lease, grace_ms),
            Event::Revoked { lease } => {
                if let Some(link) = self.leases.get(&lease).copied()
                    && let State::Busy(task) = self.put(link, State::Idle)
                {
                    self.put(link, State::Stale(task.issue_id));
                }
            }
            Event::Stop => self.stop(now, actions),
            Event::Cut => self.workers.keys().for_each(|link| actions.close(*link)),
        }
    }

    fn on_closed(&mut self, _now: Time, link: Link, actions: &mut ActionsOf<Self>) {
        let number = self.workers.get(&link).map_or(0, |worker| worker.number);
        match self.put(link, State::Idle) {
            State::Busy(task) => {
                let lost = End::Lost("its connection has ended".to_owned());
                Self::end(&task, number, lost, actions);
            }
            State::Asking(ask) => actions.effect(Effect::Withdraw(ask)),
            State::Idle | State::Held(_) | State::Resyncing(_) | State::Stale(_) => {}
        }
        if let Some(worker) = self.workers.remove(&link) {
            self.numbers.remove(&worker.number);
        }
    }

    fn wakeup(&self) -> Option<Time> {
        self.due.first().map(|(due, _)| *due)
    }

    fn on_wakeup(&mut self, now: Time, actions: &mut ActionsOf<Self>) {
        self.give_up(now, actions);
    }

    fn is_idle(&self) -> bool {
        self.workers.is_empty()
    }
}
