//! The orchestrator role: connects to workers, each of which is an executor, and sends them attempts.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use host_core::failure::{Failure, FailureKind};
use host_core::name::Name;
use host_core::outcome::Outcome;
use host_core::port::{Assignment, End, Tag};
use host_core::time::Time;
use host_runtime::slots::Slots;
use host_wire_kit::ExecutorPorts;
use host_wire_kit::driver::{EffectHandler, Hub};
use host_wire_kit::executors::{ExecutorHealth, Executors, WorkerHealth, WorkerState};
use host_wire_kit::ports::AttemptEvents;
use host_wire_kit::session::{ActionsOf, Link, Moment, Session};
use host_wire_kit::stream::{Endless, StreamSession, serve_connection};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::codec::{self, Message};
use crate::{Code, NAME};

/// How many attempts a worker may have.
const IN_FLIGHT_MAX: usize = 16;

/// How long a worker may take to stop an attempt.
const GRACE_MS: u64 = 500;

/// How long to wait before the next connection to a worker.
const RECONNECT_DELAY: Duration = Duration::from_millis(50);

/// The session: the attempts at one worker.
#[derive(Default)]
struct Orchestrator {
    link: Option<Link>,
    /// The id of an attempt on the wire is its tag.
    attempts: BTreeMap<Tag, Attempt>,
}

/// When an attempt is given up, and how it then ends.
struct Attempt {
    due: Time,
    outcome: Outcome,
}

/// What the host reports.
enum Event {
    Start(Tag, Box<Assignment>),
    Cancel { tag: Tag, grace_ms: u64 },
}

/// What the host is to do.
enum Effect {
    Capacity(usize),
    End(Tag, End),
}

impl Orchestrator {
    fn start(&mut self, now: Time, tag: Tag, job: Assignment, actions: &mut ActionsOf<Self>) {
        let has_room = self.attempts.len() < IN_FLIGHT_MAX;
        let Some(link) = self.link.filter(|_| has_room) else {
            return actions.effect(Effect::End(tag, End::NoRoom));
        };
        let failure = Failure::new(FailureKind::TimedOut, "the worker does not answer");
        let attempt = Attempt {
            due: now.plus_ms(job.timeout_ms),
            outcome: Outcome::Failed(failure),
        };
        self.attempts.insert(tag, attempt);
        let message = Message::Run {
            id: tag.0.to_string(),
            handler: job.handler,
            params: job.params,
        };
        actions.send(link, message);
    }

    fn cancel(&mut self, due: Time, tag: Tag, actions: &mut ActionsOf<Self>) {
        if let (Some(attempt), Some(link)) = (self.attempts.get_mut(&tag), self.link) {
            attempt.due = attempt.due.min(due);
            attempt.outcome = Outcome::Cancelled { partial: None };
            let id = tag.0.to_string();
            actions.send(link, Message::Stop { id });
        }
    }

    /// Ends the attempt with this id. Counts a refusal if it was given up before.
    fn end(&mut self, id: &str, outcome: Outcome, actions: &mut ActionsOf<Self>) {
        let tag = id.parse().ok().map(Tag);
        match tag.filter(|tag| self.attempts.remove(tag).is_some()) {
            Some(tag) => actions.effect(Effect::End(tag, End::Outcome(outcome))),
            None => actions.count(Code::Line.as_str()),
        }
    }
}

impl StreamSession for Orchestrator {
    type Framing = codec::Framing;

    fn read(line: Result<Bytes, Endless>) -> Option<Message> {
        Message::read(line)
    }

    fn write(message: &Message, out: &mut BytesMut) {
        message.write(out);
    }
}

impl Session for Orchestrator {
    const WIRE: &'static str = NAME;
    type In = Option<Message>;
    type Out = Message;
    type Effect = Effect;
    type Event = Event;

    fn on_open(&mut self, _: Time, link: Link, actions: &mut ActionsOf<Self>) {
        self.link = Some(link);
        actions.effect(Effect::Capacity(IN_FLIGHT_MAX));
    }

    fn on_message(
        &mut self,
        _: Moment,
        _: Link,
        message: Option<Message>,
        actions: &mut ActionsOf<Self>,
    ) {
        match message {
            Some(Message::Ok { id, result }) => {
                let result = Some(result);
                self.end(&id, Outcome::Completed { result }, actions);
            }
            Some(Message::Err { id, message }) => {
                let failure = Failure::new(FailureKind::UserError, message);
                self.end(&id, Outcome::Failed(failure), actions);
            }
            Some(Message::Run { .. } | Message::Stop { .. }) | None => {
                actions.count(Code::Line.as_str());
            }
        }
    }

    fn on_event(&mut self, at: Moment, event: Event, actions: &mut ActionsOf<Self>) {
        match event {
            Event::Start(tag, job) => self.start(at.now, tag, *job, actions),
            Event::Cancel { tag, grace_ms } => self.cancel(at.now.plus_ms(grace_ms), tag, actions),
        }
    }

    fn on_closed(&mut self, _: Time, _: Link, actions: &mut ActionsOf<Self>) {
        self.link = None;
        actions.effect(Effect::Capacity(0));
        for tag in std::mem::take(&mut self.attempts).into_keys() {
            let end = End::Lost("the connection has ended".to_owned());
            actions.effect(Effect::End(tag, end));
        }
    }

    fn wakeup(&self) -> Option<Time> {
        self.attempts.values().map(|attempt| attempt.due).min()
    }

    fn on_wakeup(&mut self, now: Time, actions: &mut ActionsOf<Self>) {
        let late = self
            .attempts
            .extract_if(.., |_, attempt| attempt.due <= now);
        for (tag, attempt) in late {
            actions.effect(Effect::End(tag, End::Outcome(attempt.outcome)));
        }
    }

    fn is_idle(&self) -> bool {
        self.attempts.is_empty()
    }
}

/// Tells the host how many attempts a worker takes, and how they end.
struct Attempts {
    executor: Name,
    slots: Arc<Slots>,
}

impl EffectHandler<Orchestrator> for Attempts {
    fn handle(&self, _: &Arc<Hub<Orchestrator, Self>>, effect: Effect) {
        match effect {
            Effect::Capacity(attempts) => self.slots.set_capacity(&self.executor, attempts),
            Effect::End(tag, end) => self.slots.end(tag, format!("{}/1", self.executor), end),
        }
    }
}

impl AttemptEvents<Orchestrator> for Attempts {
    fn start(&self, tag: Tag, assignment: Assignment) -> Event {
        Event::Start(tag, Box::new(assignment))
    }

    fn cancel(tag: Tag, grace_ms: u64) -> Event {
        Event::Cancel { tag, grace_ms }
    }
}

/// The executors: a session for each worker of the section.
pub(crate) struct Runners(BTreeMap<Name, Arc<Hub<Orchestrator, Attempts>>>);

impl Runners {
    /// Connects to all workers, again and again, until `ports.stopping`.
    pub(crate) fn connect(workers: &BTreeMap<Name, SocketAddr>, ports: &ExecutorPorts) -> Self {
        let hubs = workers.iter().map(|(name, address)| {
            let hub = start_session(name, ports);
            let serving = serve(Arc::clone(&hub), *address);
            let stopping = ports.stopping.clone();
            ports.tasks.spawn(async move {
                tokio::select! {
                    () = serving => {}
                    () = stopping.cancelled() => {}
                }
            });
            (name.clone(), hub)
        });
        Self(hubs.collect())
    }
}

fn start_session(executor: &Name, ports: &ExecutorPorts) -> Arc<Hub<Orchestrator, Attempts>> {
    let slots = Slots::new(Arc::clone(&ports.leases), GRACE_MS);
    let attempts = Attempts {
        executor: executor.clone(),
        slots: Arc::clone(&slots),
    };
    let (clock, counters) = (Arc::clone(&ports.clock), Arc::clone(&ports.counters));
    let hub = Hub::new(Orchestrator::default(), attempts, clock, counters);
    slots.connect(Arc::downgrade(&hub) as _);
    hub
}

/// Serves one connection to a worker after the other. Does not end.
async fn serve(hub: Arc<Hub<Orchestrator, Attempts>>, worker: SocketAddr) {
    let connecting = async {
        for link in 0.. {
            if let Ok(stream) = TcpStream::connect(worker).await {
                serve_connection(Arc::clone(&hub), Link(link), stream).await;
            }
            sleep(RECONNECT_DELAY).await;
        }
    };
    tokio::select! {
        () = connecting => {}
        () = Arc::clone(&hub).keep_time() => {}
    }
}

impl Executors for Runners {
    fn names(&self) -> Vec<Name> {
        self.0.keys().cloned().collect()
    }

    fn health(&self) -> Vec<ExecutorHealth> {
        let health = |(name, hub): (&Name, &Arc<Hub<Orchestrator, Attempts>>)| {
            let is_connected = hub.inspect(|session| session.link.is_some());
            let state = if is_connected {
                WorkerState::Up
            } else {
                WorkerState::Down
            };
            ExecutorHealth {
                name: name.clone(),
                wire: NAME,
                is_external: true,
                is_restartable: false,
                workers: vec![WorkerHealth::new(name, 1, state)],
            }
        };
        self.0.iter().map(health).collect()
    }
}
