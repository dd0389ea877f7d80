//! The worker role on a socket: listens on loopback, serves every connection, stops in time.

#[cfg(test)]
pub(super) mod tests;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::worker::{Answered, Worker, WorkerAsk, WorkerSaid};
use crate::driver::Listener;
use crate::driver::{Edge, Hub, accept};
use host_core::port::{Answer, Answers, Clock, Counters, Execute, Reply, Tag};

/// How long everything in flight may take to be answered when the host stops.
const DRAIN_TIME: Duration = Duration::from_millis(130);

/// How long the answers may then take to be written.
const FLUSH_TIME: Duration = Duration::from_millis(40);

/// What the worker role needs of its host.
#[derive(Clone)]
pub struct WorkerPorts {
    /// Executes the jobs.
    pub executor: Arc<dyn Execute>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Counts what is refused.
    pub counters: Arc<dyn Counters>,
    /// How long before a deadline a request is answered at least, in milliseconds: 20 to 250.
    pub deadline_margin_ms: u64,
}

/// Why an address is not listened on.
#[derive(Debug, Error)]
pub enum ListenError {
    /// It is not written as one.
    #[error("cannot read {text:?} as HOST:PORT; write 127.0.0.1:7701, for instance")]
    Unreadable {
        /// What was written; cut if it is long.
        text: String,
    },
    /// It can be reached from other machines.
    #[error(
        "refused to listen for RRQ on {address}: it is not a loopback address, and remote access \
         (--rrq-allow-remote) needs TLS and a token, which this version does not have; \
         listen on 127.0.0.1"
    )]
    NotLoopback {
        /// Which address.
        address: SocketAddr,
    },
    /// The system refuses.
    #[error("cannot listen for RRQ on {address}: {source}; choose another port")]
    Bind {
        /// Which address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
}

/// Reads `HOST:PORT` as orchestrators write it; the host may be `localhost`.
pub fn read_address(text: &str) -> Result<SocketAddr, ListenError> {
    let unreadable = || ListenError::Unreadable {
        text: text.chars().take(64).collect(),
    };
    if let Some(port) = text.strip_prefix("localhost:") {
        let port = port.parse().map_err(|_| unreadable())?;
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    text.parse().map_err(|_| unreadable())
}

/// Binds a loopback address. Connections wait from then on; [`serve`] answers them.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, ListenError> {
    if !address.ip().is_loopback() {
        return Err(ListenError::NotLoopback { address });
    }
    let bound = TcpListener::bind(address).await;
    bound.map_err(|source| ListenError::Bind { address, source })
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&mut self) -> io::Result<TcpStream> {
        let (stream, _) = TcpListener::accept(self).await?;
        // A small answer must not wait for the peer's acknowledgement of the last one.
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// Serves `listener` until `stopping`; then guests are stopped, answers written and connections
/// closed, all within 200 ms. Dropped, it closes all connections, which stops their guests.
pub async fn serve<L: Listener>(listener: L, ports: WorkerPorts, stopping: CancellationToken) {
    let executes = Executes {
        executor: ports.executor,
    };
    let session = Worker::new(ports.deadline_margin_ms);
    let hub = Hub::new(session, executes, ports.clock, ports.counters);
    let serving = async {
        let mut open = accept(&hub, listener, &stopping).await;
        hub.say(WorkerSaid::Stop);
        // A guest that has not stopped by then is answered for and dies with its cell.
        let _drained = timeout(DRAIN_TIME, hub.until(Worker::is_answered)).await;
        hub.say(WorkerSaid::End);
        let flushed = async { while open.join_next().await.is_some() {} };
        let _flushed = timeout(FLUSH_TIME, flushed).await;
    };
    tokio::select! {
        () = serving => {}
        () = Arc::clone(&hub).keep_time() => {}
    }
}

/// Takes a session's wishes to the executor and its answers back.
struct Executes {
    executor: Arc<dyn Execute>,
}

impl Edge<Worker> for Executes {
    fn ask(&self, hub: &Arc<Hub<Worker, Self>>, ask: WorkerAsk) {
        match ask {
            WorkerAsk::Start(tag, job) => {
                let answers: Arc<dyn Answers> = Arc::<Hub<Worker, Self>>::clone(hub);
                self.executor.start(*job, Reply::new(tag, answers));
            }
            WorkerAsk::Stop { tag, grace_ms, why } => self.executor.stop(tag, grace_ms, why),
        }
    }
}

impl Answers for Hub<Worker, Executes> {
    fn answer(self: Arc<Self>, tag: Tag, answer: Answer) {
        let answered = match answer {
            Answer::Ended(outcome, _) => Answered::Ended(outcome),
            Answer::Busy => Answered::Busy,
            // The wire has no words for them.
            Answer::Progressed(_) | Answer::Logged { .. } => return,
        };
        self.say(WorkerSaid::Answer(tag, answered));
    }
}
