//! The worker role: orchestrators connect and send runs, which the host's cells execute.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_core::port::{Answer, Execute, ForeignJob, Reply, Stop, Tag};
use host_core::time::Time;
use host_wire_kit::driver::{EffectHandler, Hub};
use host_wire_kit::ports::ExecutionEvents;
use host_wire_kit::session::{ActionsOf, Link, Moment, Session};
use host_wire_kit::stream::{Endless, StreamSession, accept};
use host_wire_kit::{OpenError, Ports};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::codec::{self, Message};
use crate::{Code, NAME};

/// How long a guest may take to stop.
const GRACE_MS: u64 = 500;

/// How long runs may take to end when the host stops.
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// The session: what runs here for all orchestrators.
#[derive(Default)]
struct Worker {
    runs: BTreeMap<Tag, Run>,
    tags_made: u64,
}

/// Which run of which orchestrator an execution is.
#[derive(PartialEq, Eq)]
struct Run {
    link: Link,
    id: String,
}

/// What the host reports.
enum Event {
    Answer(Tag, Answer),
    ShutDown,
}

/// What the host is to do.
enum Effect {
    Start(Tag, Box<ForeignJob>),
    Stop(Tag, Stop),
}

impl Worker {
    /// Begins a run. Returns `None` if its id already runs on the connection, or if no handler can have this name.
    fn start(&mut self, run: Run, handler: &str, params: JsonText) -> Option<Effect> {
        let handler = handler.parse().ok()?;
        if self.runs.values().any(|other| *other == run) {
            return None;
        }
        let tag = Tag(self.tags_made);
        self.tags_made += 1;
        let job = ForeignJob::new(Self::WIRE, &run.id, handler, params);
        self.runs.insert(tag, run);
        Some(Effect::Start(tag, Box::new(job)))
    }

    /// Stops the runs that match. Each stays until the host has answered it.
    fn stop(&self, why: Stop, matches: impl Fn(&Run) -> bool, actions: &mut ActionsOf<Self>) {
        for (tag, _) in self.runs.iter().filter(|(_, run)| matches(run)) {
            actions.effect(Effect::Stop(*tag, why));
        }
    }
}

impl StreamSession for Worker {
    type Framing = codec::Framing;

    fn read(line: Result<Bytes, Endless>) -> Option<Message> {
        Message::read(line)
    }

    fn write(message: &Message, out: &mut BytesMut) {
        message.write(out);
    }
}

impl Session for Worker {
    const WIRE: &'static str = NAME;
    type In = Option<Message>;
    type Out = Message;
    type Effect = Effect;
    type Event = Event;

    fn on_message(
        &mut self,
        _: Moment,
        link: Link,
        message: Option<Message>,
        actions: &mut ActionsOf<Self>,
    ) {
        match message {
            Some(Message::Run {
                id,
                handler,
                params,
            }) => match self.start(Run { link, id }, &handler, params) {
                Some(start) => actions.effect(start),
                None => actions.count(Code::Line.as_str()),
            },
            Some(Message::Stop { id }) => {
                let stopped = Run { link, id };
                self.stop(Stop::Cancelled, |run| *run == stopped, actions);
            }
            Some(Message::Ok { .. } | Message::Err { .. }) | None => {
                actions.count(Code::Line.as_str());
            }
        }
    }

    fn on_event(&mut self, _: Moment, event: Event, actions: &mut ActionsOf<Self>) {
        let (tag, answer) = match event {
            Event::Answer(tag, answer) => (tag, answer),
            Event::ShutDown => return self.stop(Stop::ShuttingDown, |_| true, actions),
        };
        let result = match answer {
            Answer::Ended(Outcome::Completed { result }, _) => {
                Ok(result.unwrap_or_else(JsonText::null))
            }
            Answer::Ended(Outcome::Failed(failure), _) => Err(failure.message),
            Answer::Ended(..) => Err("it was stopped".to_owned()),
            Answer::Busy => Err("there is no room".to_owned()),
            // The wire has no messages for these.
            Answer::Began | Answer::Progressed(_) | Answer::Logged { .. } => return,
        };
        let Some(Run { link, id }) = self.runs.remove(&tag) else {
            return;
        };
        actions.send(
            link,
            match result {
                Ok(result) => Message::Ok { id, result },
                Err(message) => Message::Err { id, message },
            },
        );
    }

    fn on_closed(&mut self, _: Time, link: Link, actions: &mut ActionsOf<Self>) {
        self.stop(Stop::Disconnected, |run| run.link == link, actions);
    }

    fn wakeup(&self) -> Option<Time> {
        None
    }

    fn on_wakeup(&mut self, _: Time, _: &mut ActionsOf<Self>) {}

    fn is_idle(&self) -> bool {
        self.runs.is_empty()
    }
}

/// Has the host's cells execute the runs.
struct Executions(Arc<dyn Execute>);

impl EffectHandler<Worker> for Executions {
    fn handle(&self, hub: &Arc<Hub<Worker, Self>>, effect: Effect) {
        match effect {
            Effect::Start(tag, job) => {
                let answers = Arc::<Hub<Worker, Self>>::clone(hub);
                self.0.start(*job, Reply::new(tag, answers));
            }
            Effect::Stop(tag, why) => self.0.stop(tag, GRACE_MS, why),
        }
    }
}

impl ExecutionEvents<Worker> for Executions {
    fn event(tag: Tag, answer: Answer) -> Option<Event> {
        Some(Event::Answer(tag, answer))
    }
}

/// Listens where orchestrators connect.
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener, OpenError> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| OpenError::failed(format!("cannot listen for sample: {error}")))
}

/// Serves orchestrators until the host stops; then stops what runs and answers it.
pub(crate) async fn serve(listener: TcpListener, ports: Ports) {
    let executions = Executions((ports.execute)());
    let hub = Hub::new(Worker::default(), executions, ports.clock, ports.counters);
    let serving = async {
        let _ = accept(&hub, listener, &ports.stopping).await;
        hub.report(Event::ShutDown);
        let _ = timeout(DRAIN_TIME, hub.until(Worker::is_idle)).await;
    };
    tokio::select! {
        () = serving => {}
        () = Arc::clone(&hub).keep_time() => {}
    }
}
