//! Between the session of a lease and the rest of the host: the orchestrator, the sandbox, and files.
//! Decides nothing.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use host_core::cell::LogLine;
use host_core::port::{Answer, Answers, Execute, Reply, Tag};
use host_core::time::Time;
use host_wire_kit::Ports;
use host_wire_kit::driver::{EffectHandler, Hub};
use host_wire_kit::http_client::Requests;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::client::{Client, Part};
use super::exchange::{Kind, Response};
use super::lease::Lease;
use super::log_file::{self, LogFile};
use super::results::Results;
use super::session::{Done, Effect, Event, LeaseSession, Mode};
use super::words::Dialect;

/// One orchestrator, and what is known of it.
#[derive(Debug)]
pub(super) struct Orchestrator {
    pub(super) client: Client,
    pub(super) runner_id: String,
    /// Whether leases come over the network.
    pub(super) is_network: bool,
    /// Whether it has refused a field of the document.
    pub(super) is_strict: AtomicBool,
}

/// The host as the session of a lease sees it.
struct Host {
    orchestrator: Arc<Orchestrator>,
    job: String,
    /// Whose log it is.
    part: Part,
    execute: Arc<dyn Execute>,
    requests: Requests,
    requests_made: AtomicU64,
    log: Mutex<Option<LogFile>>,
    done: watch::Sender<Option<Done>>,
}

type LeaseHub = Hub<LeaseSession, Host>;

/// Reports what guests say.
struct Guests(Arc<LeaseHub>);

impl Answers for Guests {
    fn answer(self: Arc<Self>, tag: Tag, answer: Answer) {
        self.0.report(Event::Guest(tag, answer));
    }
}

/// Executes a lease until it has ended. The log is appended to, if there is one.
pub(super) async fn execute(
    orchestrator: &Arc<Orchestrator>,
    ports: &Ports,
    lease: Lease,
    log: Option<(LogFile, PathBuf)>,
) -> Done {
    let (log, path) = log.unzip();
    let host = Host {
        orchestrator: Arc::clone(orchestrator),
        job: lease.job_id.clone(),
        part: Part {
            lease_id: lease.id.clone(),
            runner_id: orchestrator.runner_id.clone(),
        },
        execute: (ports.execute)(),
        requests: Requests::in_this_runtime(),
        requests_made: AtomicU64::new(0),
        log: Mutex::new(log),
        done: watch::Sender::default(),
    };
    let (now, mode) = (ports.clock.now(), orchestrator.mode());
    let results = Results::new(path.as_deref());
    let session = LeaseSession::new(now, lease, &orchestrator.runner_id, mode, results);
    let (clock, counters) = (Arc::clone(&ports.clock), Arc::clone(&ports.counters));
    let hub = Hub::new(session, host, clock, counters);
    hub.report(Event::Begin);
    let mut done = hub.handler().done.subscribe();
    let stopping = async {
        ports.stopping.cancelled().await;
        hub.report(Event::Stop);
        std::future::pending::<()>().await;
    };
    let ended = tokio::select! {
        ended = done.wait_for(Option::is_some) => ended.map_or(None, |ended| ended.clone()),
        () = stopping => None,
        () = Arc::clone(&hub).keep_time() => None,
    };
    hub.handler().requests.abort_all();
    ended.unwrap_or(Done::ShutDown)
}

impl Orchestrator {
    fn mode(&self) -> Mode {
        Mode {
            dialect: if self.is_strict.load(Ordering::Relaxed) {
                Dialect::Strict
            } else {
                Dialect::Documented
            },
            is_network: self.is_network,
        }
    }

    /// Remembers for later leases what an answer shows.
    fn record(&self, kind: Kind, response: &Response) {
        if kind != Kind::Log && *response == Response::UnknownField {
            self.is_strict.store(true, Ordering::Relaxed);
        }
    }
}

impl Host {
    /// Sends a message and reports its answer.
    fn send(
        &self,
        hub: &Arc<LeaseHub>,
        kind: Kind,
        answer: impl Future<Output = Response> + Send + 'static,
    ) {
        let tag = Tag(self.requests_made.fetch_add(1, Ordering::Relaxed));
        let hub = Arc::clone(hub);
        self.requests.start(tag, async move {
            let response = answer.await;
            hub.handler().orchestrator.record(kind, &response);
            hub.report(Event::Answered(kind, response));
        });
    }

    /// Returns the length of the log file, if there is one.
    fn append(&self, started_at: Time, lines: &[LogLine]) -> Option<u64> {
        let mut log = self.log.lock();
        let appended = log.as_mut()?.append(started_at, lines);
        if let Err(error) = &appended {
            tracing::error!(%error, "cannot write the log; the job continues without it");
            *log = None;
        }
        appended.ok()
    }
}

impl EffectHandler<LeaseSession> for Host {
    fn handle(&self, hub: &Arc<LeaseHub>, effect: Effect) {
        let client = self.orchestrator.client.clone();
        match effect {
            Effect::Send {
                kind,
                body,
                timeout_ms,
            } => self.send(hub, kind, async move {
                client.send(kind, body, timeout_ms).await
            }),
            Effect::Upload {
                offset,
                text,
                timeout_ms,
            } => {
                let part = self.part.clone();
                self.send(hub, Kind::Log, async move {
                    client.upload(&part, offset, text, timeout_ms).await
                });
            }
            Effect::Start(tag, job) => {
                let guests = Arc::new(Guests(Arc::clone(hub)));
                self.execute.start(*job, Reply::new(tag, guests));
            }
            Effect::Stop(tag, grace_ms, why) => self.execute.stop(tag, grace_ms, why),
            Effect::Log(started_at, lines) => {
                if let Some(bytes) = self.append(started_at, &lines) {
                    hub.report(Event::Logged(bytes));
                }
            }
            Effect::WarnOfLog(why) => {
                let orchestrator = self.orchestrator.client.base();
                tracing::warn!(%orchestrator, job = self.job, why, "not sending the rest of the log");
            }
            Effect::Keep(path, text) => {
                if let Err(error) = log_file::write(&path, &text) {
                    tracing::error!(path, %error, "cannot write a result");
                }
            }
            Effect::Done(done) => drop(self.done.send_replace(Some(done))),
        }
    }
}
