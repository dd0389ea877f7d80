//! Executes one lease: sends what the session says, runs guests, and tells the time. Decides nothing.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use host_core::port::{Answer, Answers, Clock, Execute, Reply, Tag};
use host_runtime::mailbox::Mailbox;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::client::{Client, Part};
use super::exchange::{Kind, Response};
use super::lease::Lease;
use super::log_file::{self, LogFile};
use super::results::Results;
use super::session::{Act, Done, Session};
use super::words::Dialect;

/// One orchestrator, and what is known of it.
#[derive(Clone, Debug)]
pub(super) struct Orchestrator {
    pub(super) client: Client,
    pub(super) runner_id: String,
    /// Whether it has refused a field of the document.
    pub(super) is_strict: Arc<AtomicBool>,
    /// Whether it has refused a part of a log.
    pub(super) takes_no_logs: Arc<AtomicBool>,
    /// Whether leases come over the network: then heartbeats may wait for a cancel, and logs are sent.
    pub(super) is_network: bool,
}

/// What executing needs of the host.
#[derive(Clone)]
pub(super) struct Host {
    pub(super) execute: Arc<dyn Execute>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) stopping: CancellationToken,
}

/// What guests say.
#[derive(Default)]
struct Inbox(Mailbox<(Tag, Answer)>);

impl Answers for Inbox {
    fn answer(self: Arc<Self>, tag: Tag, answer: Answer) {
        // The limits of a guest's log bound how much waits here.
        let _closed = self.0.put((tag, answer)).is_err();
    }
}

/// The execution of one lease.
struct Driver<'a> {
    orchestrator: &'a Orchestrator,
    host: &'a Host,
    session: Session,
    /// Whose log it is.
    upload: Part,
    inbox: Arc<Inbox>,
    sending: FuturesUnordered<BoxFuture<'static, (Kind, Response)>>,
    log: Option<LogFile>,
}

/// Executes a lease until it has ended. The log is appended to, if there is one.
pub(super) async fn drive(
    orchestrator: &Orchestrator,
    host: &Host,
    lease: Lease,
    log: Option<(LogFile, PathBuf)>,
) -> Done {
    let dialect = if orchestrator.is_strict.load(Ordering::Relaxed) {
        Dialect::Strict
    } else {
        Dialect::Documented
    };
    let (log, path) = log.unzip();
    let upload = Part {
        lease_id: lease.id.clone(),
        runner_id: orchestrator.runner_id.clone(),
    };
    let takes_logs = !orchestrator.takes_no_logs.load(Ordering::Relaxed);
    let session = Session::new(
        host.clock.now(),
        lease,
        &orchestrator.runner_id,
        dialect,
        (orchestrator.is_network, takes_logs),
        Results::new(path.as_deref()),
    );
    let driver = Driver {
        orchestrator,
        host,
        session,
        upload,
        inbox: Arc::default(),
        sending: FuturesUnordered::new(),
        log,
    };
    driver.run().await
}

impl Driver<'_> {
    async fn run(mut self) -> Done {
        let mut is_stopping = false;
        let (now, wall) = self.now();
        let mut acts = self.session.begin(now, &wall);
        loop {
            if let Some(done) = self.act(acts) {
                return done;
            }
            let now = self.host.clock.now();
            let due = self.session.wakeup();
            let wait = due.map_or(Duration::MAX, |due| {
                Duration::from_millis(due.since_ms(now))
            });
            tokio::select! {
                Some((kind, response)) = self.sending.next(), if !self.sending.is_empty() => {
                    let (now, wall) = self.now();
                    acts = self.session.on_response(now, &wall, kind, &response);
                    let is_strict = self.session.dialect() == Dialect::Strict;
                    self.orchestrator.is_strict.fetch_or(is_strict, Ordering::Relaxed);
                    if kind == Kind::Log && matches!(response, Response::Refused(_)) {
                        self.refuses_logs();
                    }
                }
                () = self.inbox.0.arrived() => {
                    acts = Vec::new();
                    for (tag, answer) in self.inbox.0.take() {
                        let (now, wall) = self.now();
                        acts.extend(self.session.on_guest(now, &wall, tag, answer));
                    }
                }
                () = sleep(wait), if due.is_some() => {
                    let (now, wall) = self.now();
                    acts = self.session.on_wakeup(now, &wall);
                }
                () = self.host.stopping.cancelled(), if !is_stopping => {
                    is_stopping = true;
                    acts = self.session.shut_down();
                }
            }
        }
    }

    /// Remembers that the orchestrator takes no logs: the document has no way for them.
    fn refuses_logs(&self) {
        let known = &self.orchestrator.takes_no_logs;
        if !self.session.takes_logs() && !known.swap(true, Ordering::Relaxed) {
            let orchestrator = self.orchestrator.client.base();
            tracing::info!(%orchestrator, "the orchestrator takes no logs; none are sent any more");
        }
    }

    fn now(&self) -> (host_core::time::Time, String) {
        let clock = &self.host.clock;
        (clock.now(), clock.wall().to_rfc3339())
    }

    /// Does what the session says, in order.
    fn act(&mut self, acts: Vec<Act>) -> Option<Done> {
        for act in acts {
            match act {
                Act::Send {
                    kind,
                    body,
                    timeout_ms,
                } => {
                    let client = self.orchestrator.client.clone();
                    self.sending.push(Box::pin(async move {
                        (kind, client.send(kind, body, timeout_ms).await)
                    }));
                }
                Act::Upload {
                    offset,
                    text,
                    timeout_ms,
                } => {
                    let client = self.orchestrator.client.clone();
                    let path = self.upload.path(offset);
                    self.sending.push(Box::pin(async move {
                        (Kind::Log, client.upload(&path, text, timeout_ms).await)
                    }));
                }
                Act::Start(tag, job) => {
                    let answers: Arc<dyn Answers> = Arc::<Inbox>::clone(&self.inbox);
                    self.host.execute.start(*job, Reply::new(tag, answers));
                }
                Act::Stop(tag, grace_ms, why) => self.host.execute.stop(tag, grace_ms, why),
                Act::Log(started_at, lines) => self.log(started_at, &lines),
                Act::Keep(path, text) => {
                    if let Err(error) = log_file::write(&path, &text) {
                        tracing::error!(path, %error, "a result cannot be written");
                    }
                }
                Act::Done(done) => return Some(done),
            }
        }
        None
    }

    fn log(&mut self, started_at: host_core::time::Time, lines: &[host_core::cell::LogLine]) {
        let Some(log) = &mut self.log else {
            return;
        };
        match log.append(started_at, lines) {
            Ok(bytes) => self.session.logged(bytes),
            Err(error) => {
                tracing::error!(%error, "the log cannot be written; the job goes on without it");
                self.log = None;
            }
        }
    }
}
