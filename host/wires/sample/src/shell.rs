//! The sockets: accepts orchestrators, connects to workers, and speaks to the host for the session.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use host_core::name::Name;
use host_core::port::{Answer, Assignment, Execute, Reply, Tag};
use host_runtime::slots::Slots;
use host_wire_kit::driver::{EffectHandler, Hub};
use host_wire_kit::ports::{AttemptEvents, ExecutionEvents};
use host_wire_kit::session::{Link, Session as _};
use host_wire_kit::stream::{accept, serve_connection};
use host_wire_kit::{ExecutorPorts, Ports};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use super::session::{Effect, Event, Peers};

const GRACE_MS: u64 = 500;

/// What the host is to a session: it executes, or it has an executor.
pub(super) enum Host {
    Execute(Arc<dyn Execute>),
    Executor(Name, Arc<Slots>),
}

/// A session with its connections. Cloning shares it.
#[derive(Clone)]
pub(super) struct Peer(Arc<Hub<Peers, Host>>);

impl EffectHandler<Peers> for Host {
    fn handle(&self, hub: &Arc<Hub<Peers, Self>>, effect: Effect) {
        match (self, effect) {
            (Self::Execute(execute), Effect::Run(tag, job)) => {
                execute.start(*job, Reply::new(tag, Arc::<Hub<Peers, Self>>::clone(hub)));
            }
            (Self::Execute(execute), Effect::Stop(tag, why)) => execute.stop(tag, GRACE_MS, why),
            (Self::Executor(name, slots), Effect::Capacity(most)) => slots.set_capacity(name, most),
            (Self::Executor(name, slots), Effect::Ended(tag, end)) => {
                slots.ended(tag, format!("{name}/1"), end);
            }
            (Self::Executor(..), Effect::Run(tag, _)) => {
                hub.report(Event::Answer(tag, Answer::Busy));
            }
            _ => {}
        }
    }
}

impl ExecutionEvents<Peers> for Host {
    fn event(tag: Tag, answer: Answer) -> Option<Event> {
        Some(Event::Answer(tag, answer))
    }
}

impl AttemptEvents<Peers> for Host {
    fn start(&self, tag: Tag, assignment: Assignment) -> Event {
        Event::Start(tag, assignment)
    }

    fn cancel(tag: Tag, grace_ms: u64) -> Event {
        Event::Cancel(tag, grace_ms)
    }
}

/// Serves orchestrators until the host stops, and then stops and answers what still runs.
pub(super) async fn serve(listener: TcpListener, ports: Ports) {
    let host = Host::Execute((ports.execute)());
    let hub = Hub::new(Peers::default(), host, ports.clock, ports.counters);
    let serving = async {
        let _open = accept(&hub, listener, &ports.stopping).await;
        hub.report(Event::ShutDown);
        let _late = timeout(Duration::from_secs(1), hub.until(Peers::is_idle)).await;
    };
    tokio::select! {
        () = serving => {}
        () = Arc::clone(&hub).keep_time() => {}
    }
}

impl Peer {
    /// Connects to a worker, again and again, until the executors end.
    pub(super) fn dial(name: &Name, address: SocketAddr, ports: &ExecutorPorts) -> Self {
        let slots = Slots::new(ports.leases.clone(), GRACE_MS);
        let host = Host::Executor(name.clone(), slots.clone());
        let (clock, counters) = (ports.clock.clone(), ports.counters.clone());
        let hub = Hub::new(Peers::default(), host, clock, counters);
        slots.connect(Arc::downgrade(&hub) as _);
        let (peer, stopping) = (Self(hub.clone()), ports.stopping.clone());
        ports.tasks.spawn(async move {
            let connecting = async {
                for link in 0.. {
                    if let Ok(stream) = TcpStream::connect(address).await {
                        serve_connection(hub.clone(), Link(link), stream).await;
                    }
                    sleep(Duration::from_millis(50)).await;
                }
            };
            tokio::select! {
                () = connecting => {}
                () = hub.clone().keep_time() => {}
                () = stopping.cancelled() => {}
            }
        });
        peer
    }

    pub(super) fn is_up(&self) -> bool {
        self.0.inspect(|peers| peers.link.is_some())
    }
}
