//! A host in memory for the tests of wires: the rules of `host_core` behind the port for leases, and a
//! clock that the test moves. Nothing runs by itself. It may have several nodes, which share its jobs.

mod job;
mod nodes;
mod slots;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use host_core::id::{JobId, LeaseId, NodeId};
use host_core::job::{Lifecycle, NewJob, Payload, State};
use host_core::json::JsonText;
use host_core::lease::{Fence, Revocation};
use host_core::name::Name;
use host_core::outcome::{Attempt, Meter};
use host_core::policy::Policy;
use host_core::port::Clock as _;
use host_core::port::lease::{
    End, EndCause, GrantedLease, LeaseError, LeaseMessage, LeaseRequest, Respond, Standing,
    StoredJob,
};
use host_core::time::Time;
use host_core::transition::{Effect, Input, Loss};
use host_engine::Rejection;
use host_engine::job::JobRefusal;
use host_runtime::lease_book::LeaseBook;
use parking_lot::Mutex;
use tokio::sync::watch;
use uuid::Uuid;

use self::job::Job;
use self::nodes::Nodes;
use crate::{KeptLogs, TestClock};

pub use self::nodes::LeaseNode;

/// Nothing in a test takes as long.
const BOUND: Duration = Duration::from_mins(1);

struct PendingLease {
    /// The node that was asked.
    node: NodeId,
    request: LeaseRequest,
    until: Time,
    respond: Box<dyn Respond<Vec<GrantedLease>>>,
}

#[derive(Default)]
struct Inner {
    jobs: BTreeMap<JobId, Job>,
    waiting: Vec<PendingLease>,
    nodes: Nodes,
    /// What each node remembers of leases.
    books: BTreeMap<NodeId, LeaseBook>,
    made: u128,
    /// Fails every message.
    failing: Option<LeaseError>,
    /// Whether no job has a second attempt.
    has_single_attempts: bool,
    /// The worker and the end of the latest attempt of each job whose lease a connection held.
    ends: BTreeMap<JobId, (String, End)>,
}

/// Calls to make once the host is no longer locked.
type Calls = Vec<Box<dyn FnOnce(&LeaseHost) + Send>>;

/// The host.
pub struct LeaseHost {
    inner: Mutex<Inner>,
    pub clock: Arc<TestClock>,
    pub logs: Arc<KeptLogs>,
    /// Grows with every change, for tests that wait.
    changes: watch::Sender<u64>,
}

impl LeaseHost {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::default(),
            clock: Arc::default(),
            logs: Arc::default(),
            changes: watch::Sender::new(0),
        })
    }

    /// Changes the host, gives available jobs to those who wait, and then makes the calls that this requires.
    fn change<T>(&self, change: impl FnOnce(&mut Inner, Time) -> (T, Calls)) -> T {
        let now = self.clock.now();
        let mut inner = self.inner.lock();
        let (value, mut calls) = change(&mut inner, now);
        calls.extend(inner.claim(now));
        drop(inner);
        for call in calls {
            call(self);
        }
        self.changes.send_modify(|changes| *changes += 1);
        self.answer_woken(now);
        value
    }

    /// Accepts a job for an executor and its handler.
    pub fn enqueue(
        &self,
        (executor, handler): (&str, &str),
        params: &str,
        policy: Policy,
        attributes: &[(&str, &str)],
    ) -> JobId {
        let attributes = attributes
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let payload = Payload {
            params: JsonText(params.to_owned()),
            wire: "http".to_owned(),
            external_id: None,
            trace_context: vec![("traceparent".to_owned(), "00-1-2-01".to_owned())],
            attributes: attributes.collect(),
            origin: None,
            latest_start: None,
        };
        self.change(|inner, now| {
            inner.made += 1;
            let id = JobId(Uuid::from_u128((0x0192_abcd << 96) | inner.made));
            let new = NewJob {
                id,
                handler: handler.parse().unwrap(),
                executor: Some(executor.parse().unwrap()),
                component: None,
                queue: Name::default_queue(),
                priority: 5,
                run_at: None,
                deadline: None,
                policy,
                unique_key: None,
                depends_on: Vec::new(),
                conditions: None,
                batch: None,
                notify: Vec::new(),
                files: Vec::new(),
                payload: payload.clone(),
            };
            let job = Job {
                lifecycle: Lifecycle::accept(now, &new, 0),
                payload,
                attempts: Vec::new(),
                result: None,
                failure: None,
                progress: None,
                events: None,
                is_restored: false,
            };
            inner.jobs.insert(id, job);
            (id, Calls::new())
        })
    }

    /// Asks for the stop of a job.
    pub fn cancel(&self, id: JobId, reason: Option<&str>) -> Result<Standing, Rejection> {
        let grace_ms = None;
        self.change(|inner, now| inner.apply(now, id, &Input::Cancel { reason, grace_ms }))
    }

    /// Applies what is due by now.
    pub fn tick(&self) {
        self.change(|inner, now| {
            let ids: Vec<JobId> = inner.jobs.keys().copied().collect();
            let mut calls = Calls::new();
            for id in ids {
                while inner.is_due(id, now) {
                    calls.extend(inner.apply(now, id, &Input::Tick).1);
                }
            }
            ((), calls)
        });
    }

    /// Returns when something is due.
    pub fn due(&self) -> Option<Time> {
        let inner = self.inner.lock();
        let jobs = inner
            .jobs
            .values()
            .map(|job| &job.lifecycle)
            .filter(|job| !job.state.is_terminal());
        jobs.filter_map(Lifecycle::wakeup).min()
    }

    /// Moves the clock and applies what is due then.
    pub fn advance(&self, ms: u64) {
        self.clock.pass(i64::try_from(ms).unwrap());
        self.tick();
    }

    /// Forgets what the first node keeps in memory, as a restart does that takes no time.
    pub fn restart(&self) {
        let mut inner = self.inner.lock();
        inner.waiting.clear();
        inner.books.remove(&NodeId::NIL);
        for job in inner.jobs.values_mut() {
            job.events = None;
            job.is_restored = job.lifecycle.lease.is_some();
        }
    }

    /// Fails every message until it is called with `None`.
    pub fn fail(&self, error: Option<LeaseError>) {
        self.inner.lock().failing = error;
    }

    pub fn look<T>(&self, id: JobId, look: impl FnOnce(&Job) -> T) -> T {
        look(&self.inner.lock().jobs[&id])
    }

    pub fn state(&self, id: JobId) -> State {
        self.look(id, |job| job.lifecycle.state)
    }

    pub fn kept(&self, id: JobId) -> Option<StoredJob> {
        self.inner.lock().jobs.get(&id).map(Job::kept)
    }

    /// Returns number, worker and outcome of each attempt.
    pub fn attempts(&self, id: JobId) -> String {
        let shown = |it: &Attempt| format!("{} {} {}", it.number, it.executor, it.outcome);
        self.look(id, |job| {
            let attempts = job.attempts.iter().map(shown);
            attempts.collect::<Vec<_>>().join(", ")
        })
    }

    /// Returns how many requests wait for a job.
    pub fn waiting(&self) -> usize {
        let inner = self.inner.lock();
        let waiting = inner.waiting.iter();
        waiting.filter(|it| !it.respond.is_gone()).count()
    }

    /// Returns the text of each line in the logs, with its job and attempt.
    pub fn logged(&self) -> Vec<(JobId, u32, String)> {
        let lines = self
            .logs
            .all()
            .into_iter()
            .map(|(job, attempt, line)| (job, attempt, line.message));
        lines.collect()
    }

    /// Waits until a job is as `is_it` says.
    pub async fn until(&self, id: JobId, is_it: impl Fn(&StoredJob) -> bool) -> StoredJob {
        let mut changes = self.changes.subscribe();
        let change = changes.wait_for(|_| is_it(&self.kept(id).unwrap()));
        let reached = tokio::time::timeout(BOUND, change).await;
        assert!(reached.is_ok(), "it stays {:?}", self.kept(id));
        self.kept(id).unwrap()
    }
}

impl LeaseHost {
    /// Returns how many jobs are in a state.
    pub fn count(&self, state: State) -> usize {
        let inner = self.inner.lock();
        let jobs = inner.jobs.values();
        jobs.filter(|job| job.lifecycle.state == state).count()
    }

    /// Waits until this many jobs are in a state.
    pub async fn until_count(&self, state: State, count: usize) {
        let mut changes = self.changes.subscribe();
        let reached = changes.wait_for(|_| self.count(state) == count);
        let is_reached = tokio::time::timeout(BOUND, reached).await.is_ok();
        assert!(is_reached, "{} are {state:?}", self.count(state));
    }
}

impl Inner {
    fn is_due(&self, id: JobId, now: Time) -> bool {
        let job = &self.jobs[&id].lifecycle;
        !job.state.is_terminal() && job.wakeup().is_some_and(|due| due <= now)
    }

    /// Applies an input, keeps what it ends, and returns the calls that follow.
    fn apply(
        &mut self,
        now: Time,
        id: JobId,
        input: &Input<'_>,
    ) -> (Result<Standing, Rejection>, Calls) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return (Err(Rejection::Job(JobRefusal::Unknown(id))), Calls::new());
        };
        let before = job.lifecycle.clone();
        let effects = match job.lifecycle.apply(now, input) {
            Ok(effects) => effects,
            Err(refusal) => return (Err(refusal.into()), Calls::new()),
        };
        let mut calls = Calls::new();
        for effect in effects {
            let holder = before.lease.as_ref().map(|lease| lease.node);
            let wires = self.nodes.wires(holder, job.events.as_ref());
            match effect {
                Effect::Stop {
                    lease, grace_ms, ..
                } => {
                    let grace_ms = grace_ms.unwrap_or_default();
                    self.books.values_mut().for_each(|book| book.wake(id));
                    for events in wires {
                        calls.push(Box::new(move |_| events.cancelled(id, lease, grace_ms)));
                    }
                }
                Effect::Revoke { lease, why } => {
                    for book in self.books.values_mut() {
                        book.end(id, lease, why.into());
                    }
                    for events in wires {
                        calls.push(Box::new(move |_| events.revoked(id, lease, why)));
                    }
                }
                Effect::AttemptLost { failure } => {
                    job.end(&before, now, "lost", Some(&failure), Meter::default());
                    job.failure = Some(failure);
                }
                Effect::Failed { failure } => job.failure = Some(failure),
                Effect::Purge => {}
            }
        }
        if job.lifecycle.lease.is_none() {
            job.events = None;
            if let Some(lease) = &before.lease
                && let Some(book) = self.books.get_mut(&lease.node)
            {
                book.end(id, lease.id, EndCause::Reported);
            }
        }
        (Ok(Standing::from(&job.lifecycle)), calls)
    }

    /// Applies the message of a worker that has reached `node`.
    fn handle(
        &mut self,
        now: Time,
        (node, id): (NodeId, JobId),
        fence: &Fence,
        message: LeaseMessage,
    ) -> (Result<Standing, Rejection>, Calls) {
        let before = self
            .jobs
            .get(&id)
            .map(|job| (job.lifecycle.clone(), job.events.clone()));
        let loss = |begun| {
            if begun {
                Loss::WorkerGone
            } else {
                Loss::NotBegun
            }
        };
        let input = match &message {
            LeaseMessage::Ack => Input::Ack(fence),
            LeaseMessage::Heartbeat { .. } => Input::Heartbeat(fence),
            LeaseMessage::Log { offset, bytes } => Input::Log {
                fence,
                offset: *offset,
                bytes: *bytes,
            },
            LeaseMessage::Complete { outcome, .. } => Input::Complete(fence, outcome),
            LeaseMessage::CancelAck { .. } => Input::CancelAck(fence),
            LeaseMessage::CancelReceived { grace_ms } => Input::CancelReceived(fence, *grace_ms),
            LeaseMessage::GiveBack { begun } => Input::Lose(fence, loss(*begun)),
            LeaseMessage::Exited(exit) => Input::Lose(fence, Loss::Exited(*exit)),
        };
        let (answer, mut calls) = self.apply(now, id, &input);
        if let (Ok(_), Some((before, events)), Some(job)) =
            (&answer, before, self.jobs.get_mut(&id))
        {
            job.keep(&before, now, message);
            if let Some(lease) = job.lifecycle.lease.as_ref().or(before.lease.as_ref()) {
                let book = self.books.entry(node).or_default();
                book.adopt(now, lease.id, &lease.worker, before.attempt);
                if job.lifecycle.lease.is_none() {
                    book.end(id, lease.id, EndCause::Reported);
                }
            }
            // The node that has granted the lease finds out that another one has ended it.
            if job.lifecycle.lease.is_none()
                && let (Some(lease), Some(events)) = (before.lease, events)
                && lease.node != node
            {
                let why = Revocation::EndedElsewhere;
                calls.push(Box::new(move |_| events.revoked(id, lease.id, why)));
            }
        }
        (answer, calls)
    }

    /// Gives available jobs to those who wait, in the order of their asking.
    fn claim(&mut self, now: Time) -> Calls {
        let mut calls = Calls::new();
        for waiting in std::mem::take(&mut self.waiting) {
            if waiting.respond.is_gone() {
                continue;
            }
            match self.available(&waiting.request) {
                Some(id) => calls.push(self.grant(now, id, waiting)),
                None if waiting.until <= now => {
                    let respond = waiting.respond;
                    calls.push(Box::new(move |_| drop(respond.respond(Vec::new()))));
                }
                None => self.waiting.push(waiting),
            }
        }
        calls
    }

    /// Returns the oldest job of the first executor that has one.
    fn available(&self, request: &LeaseRequest) -> Option<JobId> {
        request.executors.iter().find_map(|executor| {
            let mut jobs = self.jobs.iter();
            let found = jobs.find(|(_, job)| {
                let may_begin = !self.has_single_attempts || job.lifecycle.lease_epoch == 0;
                job.lifecycle.state == State::Available
                    && may_begin
                    && job.lifecycle.executor.as_ref() == Some(executor)
            });
            found.map(|(id, _)| *id)
        })
    }

    fn grant(
        &mut self,
        now: Time,
        id: JobId,
        waiting: PendingLease,
    ) -> Box<dyn FnOnce(&LeaseHost) + Send> {
        self.made += 1;
        let lease = LeaseId(Uuid::from_u128(self.made << 64));
        let claim = Input::Claim {
            node: waiting.node,
            lease,
            worker: &waiting.request.worker,
            hold: waiting.request.hold,
        };
        let job = self.jobs.get_mut(&id).unwrap();
        job.lifecycle.apply(now, &claim).unwrap();
        job.events = waiting.request.events;
        job.is_restored = false;
        let granted = job.granted();
        let book = self.books.entry(waiting.node).or_default();
        let worker = waiting.request.worker.clone();
        book.add(now, lease, worker, job.lifecycle.attempt);
        let respond = waiting.respond;
        Box::new(move |host| {
            if respond.respond(vec![granted]).is_err() {
                let fence = Fence::Lease(lease);
                let back = Input::Lose(&fence, Loss::NotBegun);
                let _ = host.change(|inner, now| inner.apply(now, id, &back));
            }
        })
    }
}
