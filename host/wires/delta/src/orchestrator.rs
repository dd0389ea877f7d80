//! The orchestrator of all pools: which runners wait for jobs, and what the messages of their leases say. Pure:
//! requests come with links, answers go to them, and effects are requests to the host. Knows no HTTP.

pub(super) mod api;
mod ends;
mod executors;
pub(super) mod launched;
mod log_chunks;
mod messages;
mod pools;
mod request;
mod slots;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use host_core::cell::LogLine;
use host_core::id::{JobId, LeaseId, NodeId};
use host_core::lease::Hold;
use host_core::name::Name;
use host_core::port::Tag;
use host_core::port::lease::{GrantedLease, LeaseError, LeaseMessage, Standing};
use host_core::time::Time;
use host_wire_kit::executors::NameLookup;
use host_wire_kit::leases::LeaseEvent;
use host_wire_kit::session::{ActionsOf, Link, Moment, Session};

use self::ends::End;
use self::messages::RunnerLog;
use self::request::worker;
use super::NAME;
use super::messages::read::Ask;
use super::refusals::{Code, WireRefusal};
use super::settings::DeltaConfig;
use super::tags::{self, Lanes};

pub(super) use self::pools::Pools;
pub(super) use self::request::{Answer, Extension, Message, NamedLease, Request};

/// A request for a lease as the host has it.
#[derive(Debug)]
pub(super) struct PendingLeaseRequest {
    link: Link,
    tag: Tag,
    worker: String,
}

/// A message that the host has, until its answer.
#[derive(Debug)]
pub(super) struct PendingMessage {
    named: NamedLease,
    link: Link,
    step: Step,
}

/// What the answer of the host leads to.
#[derive(Debug)]
enum Step {
    Ack,
    /// With how much of the log is sent, in bytes, and the warnings for its sender.
    Heartbeat(Option<u64>, Vec<String>),
    Log {
        offset: u64,
        bytes: Bytes,
    },
    End(Box<End>),
    GiveBack,
}

/// What the host is to do.
#[derive(Debug)]
pub(super) enum Effect {
    /// Ask for a job of one of these executors.
    Ask {
        asked: PendingLeaseRequest,
        executors: Vec<Name>,
        hold: Hold,
        wait_ms: u64,
    },
    /// Withdraw the request with this tag.
    Withdraw(Tag),
    Send(LeaseMessage, Box<PendingMessage>),
    /// Keep lines of an attempt that began at this time.
    KeepLog(JobId, u32, Time, Vec<LogLine>),
    /// Warn that a worker names a lease of another one, the holder.
    WarnOfTheft(NamedLease, String),
}

/// What the host reports.
#[derive(Debug)]
pub(super) enum Event {
    Granted(PendingLeaseRequest, Option<Box<GrantedLease>>),
    Answered(Box<PendingMessage>, Result<Standing, LeaseError>),
    Lease(LeaseEvent),
    /// A job has named a new lane.
    LaneAdded(Name),
    /// Requests wait no longer.
    Stop,
}

/// A request for a job that waits.
#[derive(Debug)]
struct WaitingRequest {
    pool: Name,
    capabilities: BTreeSet<String>,
    /// Whether the runner offers what the pool asks for.
    fits: bool,
    worker: String,
    until: Time,
    /// What the host was asked last.
    tag: Tag,
}

/// The state of all pools.
#[derive(Debug)]
pub(super) struct Orchestrator {
    config: Arc<DeltaConfig>,
    /// The lanes that jobs have named.
    lanes: Lanes,
    /// The logs of leases that have uploaded parts.
    logs: BTreeMap<LeaseId, RunnerLog>,
    waiting: BTreeMap<Link, WaitingRequest>,
    /// The pools and lanes for whose jobs a runner has asked.
    asked_for: BTreeSet<Name>,
    tags_made: u64,
    is_stopping: bool,
    /// This node, if the next message about a lease may reach another one.
    node: Option<NodeId>,
}

type Actions = ActionsOf<Orchestrator>;

impl Orchestrator {
    fn new(config: Arc<DeltaConfig>) -> Self {
        Self {
            config,
            lanes: Lanes::default(),
            logs: BTreeMap::new(),
            waiting: BTreeMap::new(),
            asked_for: BTreeSet::new(),
            tags_made: 0,
            is_stopping: false,
            node: None,
        }
    }

    /// Finds the executor of this name: a pool, or a lane of one, which may be new. After a new one,
    /// [`Event::LaneAdded`] must follow.
    fn find_lane(&mut self, name: &Name) -> (NameLookup, bool) {
        let parts = tags::parts(name);
        let Some((_, tags)) = parts.filter(|(pool, _)| self.config.pool(pool.as_str()).is_some())
        else {
            return (NameLookup::Missing, false);
        };
        if tags.is_empty() {
            return (NameLookup::Here, false);
        }
        match self.lanes.add(name, tags) {
            Some(is_new) => (NameLookup::Here, is_new),
            None => (NameLookup::Full(tags::LANES_MAX), false),
        }
    }

    /// Explains why the jobs of a pool or lane wait: no runner has asked for one.
    fn waits_because(&self, executor: &Name) -> Option<String> {
        if self.asked_for.contains(executor) {
            return None;
        }
        let (pool, tags) = tags::parts(executor)?;
        let tags: Vec<String> = tags.into_iter().collect();
        let offering = if tags.is_empty() {
            String::new()
        } else {
            format!(" that offers {}", tags.join(", "))
        };
        Some(format!(
            "no runner of the pool {pool}{offering} has asked this node for a job since it started"
        ))
    }

    /// Returns the workers that wait and whose names begin with `prefix`.
    fn waiting_workers(&self, prefix: &str) -> impl Iterator<Item = &String> {
        let workers = self.waiting.values().map(|waiting| &waiting.worker);
        workers.filter(move |worker| worker.starts_with(prefix))
    }

    fn ask(&mut self, now: Time, link: Link, pool: Name, ask: Ask, todo: &mut Actions) {
        let Some(config) = self
            .config
            .pool(pool.as_str())
            .filter(|_| !self.is_stopping)
        else {
            return todo.send(link, Ok(Answer::Granted(None)));
        };
        let waiting = WaitingRequest {
            fits: config.capabilities.is_subset(&ask.capabilities),
            worker: worker(&pool, &ask.runner_id),
            pool,
            capabilities: ask.capabilities,
            until: now.plus_ms(ask.wait_seconds * 1_000),
            tag: Tag(self.tags_made),
        };
        self.waiting.insert(link, waiting);
        self.ask_host(now, link, todo);
    }

    /// Asks the host for a job that the runner can execute.
    fn ask_host(&mut self, now: Time, link: Link, todo: &mut Actions) {
        let ttl_ms = self.ttl_ms();
        let Some(waiting) = self.waiting.get_mut(&link) else {
            return;
        };
        waiting.tag = Tag(self.tags_made);
        self.tags_made += 1;
        let executors = if waiting.fits {
            self.lanes.of(&waiting.pool, &waiting.capabilities)
        } else {
            Vec::new()
        };
        for executor in &executors {
            if !self.asked_for.contains(executor) {
                self.asked_for.insert(executor.clone());
            }
        }
        todo.effect(Effect::Ask {
            asked: PendingLeaseRequest {
                link,
                tag: waiting.tag,
                worker: waiting.worker.clone(),
            },
            executors,
            hold: Hold::Ttl { ttl_ms },
            wait_ms: waiting.until.since_ms(now),
        });
    }

    fn ttl_ms(&self) -> u64 {
        self.config.times.lease_ttl * 1_000
    }

    fn granted(
        &mut self,
        asked: PendingLeaseRequest,
        granted: Option<Box<GrantedLease>>,
        todo: &mut Actions,
    ) {
        let waiting = self.waiting.get(&asked.link);
        let is_answered = waiting.is_some_and(|it| it.tag == asked.tag);
        if is_answered {
            self.waiting.remove(&asked.link);
        }
        match granted {
            Some(granted) if is_answered => {
                todo.send(asked.link, Ok(Answer::Granted(Some(granted))));
            }
            // Its runner has gone.
            Some(granted) => {
                let named = NamedLease::new(granted.job, granted.lease, asked.worker);
                let back = LeaseMessage::GiveBack { begun: false };
                todo.effect(messages::send(asked.link, named, back, Step::GiveBack));
            }
            None if is_answered => todo.send(asked.link, Ok(Answer::Granted(None))),
            None => {}
        }
    }

    /// Asks again for the requests whose runners can execute the jobs of a new lane.
    fn lane_added(&mut self, now: Time, lane: &Name, todo: &mut Actions) {
        let is_for = |waiting: &WaitingRequest| {
            let lanes = self.lanes.of(&waiting.pool, &waiting.capabilities);
            waiting.fits && lanes.contains(lane)
        };
        let links: Vec<Link> = self
            .waiting
            .iter()
            .filter(|(_, waiting)| is_for(waiting))
            .map(|(link, _)| *link)
            .collect();
        for link in links {
            todo.effect(Effect::Withdraw(self.waiting[&link].tag));
            self.ask_host(now, link, todo);
        }
    }

    /// Lets all requests go that wait.
    fn stop(&mut self, todo: &mut Actions) {
        self.is_stopping = true;
        for (link, waiting) in std::mem::take(&mut self.waiting) {
            todo.effect(Effect::Withdraw(waiting.tag));
            todo.send(link, Ok(Answer::Granted(None)));
        }
    }
}

impl From<LeaseEvent> for Event {
    fn from(event: LeaseEvent) -> Self {
        Self::Lease(event)
    }
}

impl Session for Orchestrator {
    const WIRE: &'static str = NAME;
    type In = Request;
    type Out = Result<Answer, WireRefusal>;
    type Effect = Effect;
    type Event = Event;

    fn on_message(&mut self, at: Moment, link: Link, request: Request, todo: &mut Actions) {
        match request {
            Request::Ask(pool, ask) => self.ask(at.now, link, pool, ask, todo),
            Request::Message(named, message) => {
                if message.is_skewed(at.wall) {
                    todo.count(Code::ClockSkew.as_str());
                }
                self.message(link, named, message, todo);
            }
        }
    }

    fn on_event(&mut self, at: Moment, event: Event, todo: &mut Actions) {
        let now = at.now;
        match event {
            Event::Granted(asked, granted) => self.granted(asked, granted, todo),
            Event::Answered(sent, answer) => self.answered(now, *sent, answer, todo),
            // The answer to the next heartbeat has it.
            Event::Lease(LeaseEvent::Cancelled { .. }) => {}
            Event::Lease(LeaseEvent::Revoked { job, lease, .. }) => {
                self.end_log(now, job, lease, todo);
            }
            Event::LaneAdded(lane) => self.lane_added(now, &lane, todo),
            Event::Stop => self.stop(todo),
        }
    }

    fn on_closed(&mut self, _: Time, link: Link, todo: &mut Actions) {
        if let Some(waiting) = self.waiting.remove(&link) {
            todo.effect(Effect::Withdraw(waiting.tag));
        }
    }

    fn wakeup(&self) -> Option<Time> {
        None
    }

    fn on_wakeup(&mut self, _: Time, _: &mut Actions) {}

    fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }
}
