//! A host in memory: an executor whose handlers are named after what they do, clients that exchange
//! frames, and connections without a network.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use host_core::failure::{Failure, FailureKind};
use host_core::outcome::{Meter, Outcome};
use host_core::port::conformance::ExecuteAudit;
use host_core::port::{Clock, Counters, Execute, ForeignJob, Reply, Stop, Tag};
use host_core::time::Time;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::super::{Rules, WorkerPorts, serve};
use crate::kit::stream::Listener;

/// Longer than anything in a test takes.
pub(crate) const BOUND: Duration = Duration::from_mins(1);

/// `echo` returns its params, `hang` waits to be stopped, `deaf` never ends, `shout` writes a line.
/// `exit` and `wedge` end or block the process they run in.
#[derive(Default)]
pub(crate) struct Handlers {
    held: Mutex<BTreeMap<Tag, (ForeignJob, Reply)>>,
    pub(crate) stops: Mutex<Vec<(Tag, u64, Stop)>>,
    pub(crate) running: watch::Sender<usize>,
}

impl Execute for Handlers {
    fn start(&self, job: ForeignJob, reply: Reply) {
        match job.handler.as_str() {
            "echo" => end(
                reply,
                Outcome::Completed {
                    result: Some(job.params),
                },
            ),
            "hang" | "deaf" => {
                let tag = reply.tag();
                self.held.lock().unwrap().insert(tag, (job, reply));
                self.running.send_modify(|running| *running += 1);
            }
            "shout" => {
                println!("shouted by a handler");
                end(reply, Outcome::Completed { result: None });
            }
            "busy" => reply.busy(),
            "panic" => panic!("an executor must not, this one does"),
            "exit" => std::process::exit(3),
            // The whole process stops answering.
            "wedge" => loop {
                std::thread::park();
            },
            "lost" => drop(reply),
            _ => reply.failed(Failure::new(
                FailureKind::HandlerNotFound,
                "no such handler",
            )),
        }
    }

    fn stop(&self, tag: Tag, grace_ms: u64, why: Stop) {
        self.stops.lock().unwrap().push((tag, grace_ms, why));
        let held = {
            let mut held = self.held.lock().unwrap();
            match held.get(&tag) {
                Some((job, _)) if job.handler.as_str() == "hang" => held.remove(&tag),
                _ => None,
            }
        };
        if let Some((_, reply)) = held {
            end(reply, Outcome::Cancelled { partial: None });
            self.running.send_modify(|running| *running -= 1);
        }
    }
}

fn end(reply: Reply, outcome: Outcome) {
    reply.ended(outcome, Meter::default());
}

impl Handlers {
    /// Waits until this many handlers are running.
    pub(crate) async fn until_running(&self, count: usize) {
        let mut running = self.running.subscribe();
        let reached = running.wait_for(|running| *running == count);
        let _count = timeout(BOUND, reached).await.unwrap().unwrap();
    }
}

pub(crate) struct TestClock(Instant);

impl TestClock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }
}

impl Clock for TestClock {
    fn now(&self) -> Time {
        let ms = u64::try_from(self.0.elapsed().as_millis()).unwrap();
        Time(1_763_000_000_000).plus_ms(ms)
    }

    fn wall(&self) -> Time {
        self.now()
    }
}

#[derive(Default)]
pub(crate) struct Counts(watch::Sender<Vec<&'static str>>);

impl Counters for Counts {
    fn refused(&self, wire: &'static str, code: &'static str) {
        assert_eq!(wire, "rrq");
        self.0.send_modify(|codes| codes.push(code));
    }
}

impl Counts {
    pub(crate) async fn until(&self, code: &str) {
        let mut counted = self.0.subscribe();
        let seen = counted.wait_for(|codes| codes.contains(&code));
        let _codes = timeout(BOUND, seen).await.unwrap().unwrap();
    }
}

pub(crate) struct Host {
    pub(crate) handlers: Arc<Handlers>,
    audit: Arc<ExecuteAudit>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) stopping: CancellationToken,
    pub(crate) serving: JoinHandle<()>,
}

impl Host {
    #[expect(clippy::disallowed_methods, reason = "a test joins its own task")]
    pub(crate) fn start(listener: impl Listener + 'static) -> Self {
        let handlers = Arc::new(Handlers::default());
        let audit = ExecuteAudit::new(Arc::<Handlers>::clone(&handlers));
        let counts = Arc::new(Counts::default());
        let clock = Arc::new(TestClock::start());
        let stopping = CancellationToken::new();
        let ports = WorkerPorts {
            executor: Arc::<ExecuteAudit>::clone(&audit),
            clock: Arc::<TestClock>::clone(&clock),
            counters: Arc::<Counts>::clone(&counts),
            rules: Rules::default(),
        };
        let serving = tokio::spawn(serve(listener, ports, stopping.clone()));
        Self {
            handlers,
            audit,
            counts,
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
