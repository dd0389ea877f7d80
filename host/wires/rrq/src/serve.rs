//! The worker role on a socket: listens on loopback, serves all connections, and stops in time.

#[cfg(test)]
pub(super) mod tests;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use host_core::port::{Answer, Answers, Clock, Counters, Execute, Reply, Tag};
use host_wire_kit::driver::{EffectHandler, Hub};
use host_wire_kit::ports::ExecutionEvents;
use host_wire_kit::stream::{Listener, accept};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::worker::{ExecutionEnd, Rules, Worker, WorkerEffect, WorkerEvent};

/// How long answers to everything in flight may take when the host stops.
const DRAIN_TIME: Duration = Duration::from_millis(130);

/// How long writing these answers may take.
const FLUSH_TIME: Duration = Duration::from_millis(40);

/// What the worker role needs from the host.
#[derive(Clone)]
pub(super) struct WorkerPorts {
    pub(super) executor: Arc<dyn Execute>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) counters: Arc<dyn Counters>,
    pub(super) rules: Rules,
}

/// The address cannot be listened on.
#[derive(Debug, Error)]
#[error("cannot listen for RRQ on {address}: {source}; choose another port")]
pub(super) struct BindError {
    address: SocketAddr,
    source: io::Error,
}

/// Reads `HOST:PORT` in the notation of orchestrators. The host may be `localhost`.
pub(super) fn read_address(text: &str) -> Option<SocketAddr> {
    match text.strip_prefix("localhost:") {
        Some(port) => {
            let port = port.parse().ok()?;
            Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))
        }
        None => text.parse().ok(),
    }
}

/// Binds an address. Connections then wait until [`serve`] accepts them.
pub(super) async fn bind(address: SocketAddr) -> Result<TcpListener, BindError> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|source| BindError { address, source })
}

/// Serves `listener` until `stopping`; then stops guests, writes answers and closes connections
/// within 200 ms. If dropped, closes all connections, which stops their guests.
pub(super) async fn serve<L: Listener>(
    listener: L,
    ports: WorkerPorts,
    stopping: CancellationToken,
) {
    let executions = Executions {
        executor: ports.executor,
    };
    let session = Worker::new(ports.rules);
    let hub = Hub::new(session, executions, ports.clock, ports.counters);
    let serving = async {
        let mut open = accept(&hub, listener, &stopping).await;
        hub.report(WorkerEvent::Stop);
        // A guest that has not stopped by then dies with its cell. Its request is answered here.
        let _ = timeout(DRAIN_TIME, hub.until(Worker::is_answered)).await;
        hub.report(WorkerEvent::End);
        let flushed = async { while open.join_next().await.is_some() {} };
        let _ = timeout(FLUSH_TIME, flushed).await;
    };
    tokio::select! {
        () = serving => {}
        () = Arc::clone(&hub).keep_time() => {}
    }
}

/// Passes the session's effects to the executor, and the executor's answers to the session.
struct Executions {
    executor: Arc<dyn Execute>,
}

impl EffectHandler<Worker> for Executions {
    fn handle(&self, hub: &Arc<Hub<Worker, Self>>, effect: WorkerEffect) {
        match effect {
            WorkerEffect::Start(tag, job) => {
                let answers: Arc<dyn Answers> = Arc::<Hub<Worker, Self>>::clone(hub);
                self.executor.start(*job, Reply::new(tag, answers));
            }
            WorkerEffect::Stop { tag, grace_ms, why } => self.executor.stop(tag, grace_ms, why),
        }
    }
}

impl ExecutionEvents<Worker> for Executions {
    fn event(tag: Tag, answer: Answer) -> Option<WorkerEvent> {
        let answered = match answer {
            Answer::Ended(outcome, _) => ExecutionEnd::Ended(outcome),
            Answer::Busy => ExecutionEnd::Busy,
            // The wire has no messages for these.
            Answer::Began | Answer::Progressed(_) | Answer::Logged { .. } => return None,
        };
        Some(WorkerEvent::Answer(tag, answered))
    }
}
