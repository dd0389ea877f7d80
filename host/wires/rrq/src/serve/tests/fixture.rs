//! A host in memory: an executor whose handlers are named after what they do, clients that exchange
//! frames, and connections without a network.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use host_core::outcome::{Meter, Outcome};
use host_core::port::Clock as _;
use host_core::time::Time;
use host_testing::ExecuteAudit;
use host_testing::{FakeExecutor, Refusals, Run, TokioClock};
use host_wire_kit::stream::Listener;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::super::{Rules, WorkerPorts, serve};

/// Longer than anything in a test takes.
pub(crate) const BOUND: Duration = Duration::from_mins(1);

/// Handlers as [`Run::by_handler`] has them. Also, `shout` writes a line, and `exit` and `wedge` end or block the
/// process they run in.
pub(crate) fn handlers() -> Arc<FakeExecutor> {
    FakeExecutor::new(|job, _| match job.handler.as_str() {
        "shout" => {
            println!("shouted by a handler");
            Run::Ends(Outcome::Completed { result: None }, Meter::default())
        }
        "panic" => panic!("an executor must not, this one does"),
        "exit" => std::process::exit(3),
        // The whole process stops answering.
        "wedge" => loop {
            std::thread::park();
        },
        _ => Run::by_handler(job),
    })
}

pub(crate) struct Host {
    pub(crate) handlers: Arc<FakeExecutor>,
    audit: Arc<ExecuteAudit>,
    pub(crate) refusals: Arc<Refusals>,
    pub(crate) clock: Arc<TokioClock>,
    pub(crate) stopping: CancellationToken,
    pub(crate) serving: JoinHandle<()>,
}

impl Host {
    #[expect(clippy::disallowed_methods, reason = "a test joins its own task")]
    pub(crate) fn start(listener: impl Listener + 'static) -> Self {
        let handlers = handlers();
        let audit = ExecuteAudit::new(Arc::<FakeExecutor>::clone(&handlers));
        let refusals = Refusals::of("rrq");
        let clock = Arc::new(TokioClock::start());
        let stopping = CancellationToken::new();
        let ports = WorkerPorts {
            executor: Arc::<ExecuteAudit>::clone(&audit),
            clock: Arc::<TokioClock>::clone(&clock),
            counters: Arc::<Refusals>::clone(&refusals),
            rules: Rules::default(),
        };
        let serving = tokio::spawn(serve(listener, ports, stopping.clone()));
        Self {
            handlers,
            audit,
            refusals,
            clock,
            stopping,
            serving,
        }
    }

    /// Stops the host and returns how long that took.
    pub(crate) async fn stop(self) -> Duration {
        let begun = Instant::now();
        self.stopping.cancel();
        timeout(BOUND, self.serving).await.unwrap().unwrap();
        self.audit.assert_kept();
        begun.elapsed()
    }

    pub(crate) fn request(&self, id: &str, handler: &str, within_ms: u64) -> Value {
        Self::request_by(id, handler, self.clock.wall().plus_ms(within_ms))
    }

    pub(crate) fn request_by(id: &str, handler: &str, deadline: Time) -> Value {
        json!({"type": "request", "payload": {
            "protocol_version": "2", "request_id": id, "job_id": format!("job {id}"),
            "function_name": handler, "params": {"id": id},
            "context": {
                "job_id": format!("job {id}"), "attempt": 1,
                "enqueue_time": "2026-11-20T23:40:47.492469Z", "queue_name": "default",
                "deadline": deadline.to_rfc3339(),
                "worker_id": "w"
            }
        }})
    }
}

pub(crate) fn cancel(id: &str, hard_kill: bool) -> Value {
    json!({"type": "cancel", "payload": {
        "protocol_version": "2", "job_id": format!("job {id}"), "request_id": id,
        "hard_kill": hard_kill
    }})
}

/// The client's end of a connection.
pub(crate) struct Client<T>(pub(crate) T);

impl<T: AsyncRead + AsyncWrite + Unpin> Client<T> {
    pub(crate) async fn send(&mut self, message: &Value) {
        let payload = message.to_string();
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let frame = [&length, payload.as_bytes()].concat();
        self.0.write_all(&frame).await.unwrap();
    }

    /// Returns the payload of the next response, or `None` at the end of the connection.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        timeout(BOUND, async {
            let length = match self.0.read_u32().await {
                Ok(length) => usize::try_from(length).unwrap(),
                Err(_) => return None,
            };
            let mut payload = vec![0; length];
            self.0.read_exact(&mut payload).await.unwrap();
            let mut message: Value = serde_json::from_slice(&payload).unwrap();
            assert_eq!(message["type"], "response");
            Some(message["payload"].take())
        })
        .await
        .expect("an answer or the end")
    }

    pub(crate) async fn answer(&mut self) -> Value {
        self.next().await.expect("an answer")
    }
}

/// A listener for connections in memory, so that time can be paused.
pub(crate) struct Memory(mpsc::Receiver<DuplexStream>);

impl Memory {
    pub(crate) fn new() -> (Self, mpsc::Sender<DuplexStream>) {
        let (connect, listen) = mpsc::channel(8);
        (Self(listen), connect)
    }
}

impl Listener for Memory {
    type Stream = DuplexStream;

    async fn accept(&mut self) -> io::Result<DuplexStream> {
        match self.0.recv().await {
            Some(stream) => Ok(stream),
            None => std::future::pending().await,
        }
    }
}

/// Connects a client. The connection buffers `bytes`.
pub(crate) async fn connect(to: &mpsc::Sender<DuplexStream>, bytes: usize) -> Client<DuplexStream> {
    let (ours, theirs) = duplex(bytes);
    to.send(theirs).await.unwrap();
    Client(ours)
}
