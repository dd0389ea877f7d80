//! A host in memory for tests: the rules of `host_core` behind the door for leases, one clock that the
//! test moves, and nothing that runs by itself.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use host_core::failure::Failure;
use host_core::id::{JobId, LeaseId, NodeId};
use host_core::job::{Lifecycle, NewJob, Payload, State};
use host_core::json::JsonText;
use host_core::lease::Fence;
use host_core::name::Name;
use host_core::outcome::{Attempt, Meter, Outcome};
use host_core::policy::Policy;
use host_core::port::lease::{
    Granted, Kept, LeaseError, LeaseEvents, LeaseMessage, LeaseRequest, Leases, Respond, Resumed,
    Standing,
};
use host_core::port::{Assignment, Clock, Counters};
use host_core::query::JobDetail;
use host_core::rejection::Rejection;
use host_core::time::Time;
use host_core::transition::{Effect, Input, Loss};
use tokio::sync::watch;
use uuid::Uuid;

const START: Time = Time(1_800_000_000_000);

/// Host time, and a wall clock beside it.
#[derive(Debug, Default)]
pub(super) struct TestClock {
    passed_ms: AtomicI64,
    wall_ahead_ms: AtomicI64,
}

impl TestClock {
    pub(super) fn pass(&self, ms: i64) {
        self.passed_ms.fetch_add(ms, Ordering::SeqCst);
    }

    pub(super) fn set_wall_ahead(&self, ms: i64) {
        self.wall_ahead_ms.store(ms, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Time {
        Time(START.0 + self.passed_ms.load(Ordering::SeqCst))
    }

    fn wall(&self) -> Time {
        Time(self.now().0 + self.wall_ahead_ms.load(Ordering::SeqCst))
    }
}

/// Counts refusals.
#[derive(Debug, Default)]
pub(super) struct Refusals(pub(super) watch::Sender<Vec<&'static str>>);

impl Counters for Refusals {
    fn refused(&self, wire: &'static str, code: &'static str) {
        assert_eq!(wire, super::NAME);
        self.0.send_modify(|codes| codes.push(code));
    }
}

struct Job {
    lifecycle: Lifecycle,
    payload: Payload,
    attempts: Vec<Attempt>,
    result: Option<JsonText>,
    failure: Option<Failure>,
    events: Option<Arc<dyn LeaseEvents>>,
    is_restored: bool,
}

type Waiting = (LeaseRequest, Box<dyn Respond<Option<Granted>>>);

#[derive(Default)]
struct Jobs {
    by_id: BTreeMap<JobId, Job>,
    waiting: Vec<Waiting>,
    made: u128,
}

/// The host.
pub(super) struct Model {
    jobs: Mutex<Jobs>,
    pub(super) clock: Arc<TestClock>,
    /// Grows with every change, for tests that wait.
    changes: watch::Sender<u64>,
}

impl Model {
    pub(super) fn new(clock: Arc<TestClock>) -> Arc<Self> {
        Arc::new(Self {
            jobs: Mutex::default(),
            clock,
            changes: watch::Sender::new(0),
        })
    }

    pub(super) fn enqueue(
        &self,
        address: (&str, &str),
        params: &str,
        policy: Policy,
        attributes: &[(&str, &str)],
    ) -> JobId {
        let mut jobs = self.jobs.lock().unwrap();
        jobs.made += 1;
        let id = JobId(Uuid::from_u128((0x0192_abcd << 96) | jobs.made));
        let payload = Payload {
            params: JsonText(params.to_owned()),
            wire: "http".to_owned(),
            external_id: None,
            trace_context: vec![("traceparent".to_owned(), "00-1-2-01".to_owned())],
            attributes: attributes
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        };
        let new = NewJob {
            id,
            handler: address.1.parse().unwrap(),
            runner: Some(address.0.parse().unwrap()),
            queue: Name::default_queue(),
            priority: 5,
            run_at: None,
            deadline: None,
            policy,
            unique_key: None,
            depends_on: Vec::new(),
            payload: payload.clone(),
        };
        let job = Job {
            lifecycle: Lifecycle::accept(self.clock.now(), &new, 0),
            payload,
            attempts: Vec::new(),
            result: None,
            failure: None,
            events: None,
            is_restored: false,
        };
        jobs.by_id.insert(id, job);
        self.settle(&mut jobs);
        id
    }

    /// Applies what is due by now.
    pub(super) fn tick(&self) {
        let mut jobs = self.jobs.lock().unwrap();
        let ids: Vec<JobId> = jobs.by_id.keys().copied().collect();
        for id in ids {
            let _nothing_due = self.apply(&mut jobs, id, &Input::Tick);
        }
        self.settle(&mut jobs);
    }

    pub(super) fn cancel(&self, id: JobId, reason: Option<&str>) {
        let mut jobs = self.jobs.lock().unwrap();
        let grace_ms = None;
        self.apply(&mut jobs, id, &Input::Cancel { reason, grace_ms })
            .unwrap();
        self.settle(&mut jobs);
    }

    /// Forgets what a host keeps in memory, as a restart does.
    pub(super) fn restart(&self) {
        let mut jobs = self.jobs.lock().unwrap();
        jobs.waiting.clear();
        for job in jobs.by_id.values_mut() {
            job.events = None;
            job.is_restored = job.lifecycle.lease.is_some();
        }
    }

    pub(super) fn kept(&self, id: JobId) -> Option<Kept> {
        kept(&self.jobs.lock().unwrap(), id)
    }

    pub(super) fn state(&self, id: JobId) -> State {
        self.jobs.lock().unwrap().by_id[&id].lifecycle.state
    }

    /// Waits until a job is as `is_it` says.
    pub(super) async fn until(&self, id: JobId, is_it: impl Fn(&Kept) -> bool) -> Kept {
        let mut changes = self.changes.subscribe();
        let reached = changes.wait_for(|_| is_it(&self.kept(id).unwrap()));
        let bound = std::time::Duration::from_mins(1);
        let reached = tokio::time::timeout(bound, reached).await;
        assert!(reached.is_ok(), "it stays {:?}", self.kept(id));
        self.kept(id).unwrap()
    }

    fn apply(&self, jobs: &mut Jobs, id: JobId, input: &Input<'_>) -> Result<(), Rejection> {
        let now = self.clock.now();
        let job = jobs.by_id.get_mut(&id).ok_or(Rejection::UnknownJob(id))?;
        let before = job.lifecycle.clone();
        for effect in job.lifecycle.apply(now, input)? {
            match effect {
                Effect::Stop {
                    lease, grace_ms, ..
                } => {
                    if let Some(events) = &job.events {
                        events.cancelled(id, lease, grace_ms.unwrap_or_default());
                    }
                }
                Effect::Revoke { lease } => {
                    if let Some(events) = job.events.take() {
                        events.revoked(id, lease);
                    }
                }
                Effect::AttemptLost { failure } => {
                    let lost = record(
                        &before,
                        "lost",
                        Some(failure.clone()),
                        Meter::default(),
                        now,
                    );
                    job.attempts.push(lost);
                    job.failure = Some(failure);
                }
                Effect::Failed { failure } => job.failure = Some(failure),
                Effect::Purge => {}
            }
        }
        Ok(())
    }

    /// Gives available jobs to those who wait, oldest first.
    fn settle(&self, jobs: &mut Jobs) {
        let mut waiting = std::mem::take(&mut jobs.waiting);
        waiting.retain(|(_, respond)| !respond.is_gone());
        for (request, respond) in waiting {
            let is_its = |job: &&Job| {
                let runner = job.lifecycle.runner.as_ref();
                job.lifecycle.state == State::Available
                    && runner.is_some_and(|name| request.executors.contains(name))
            };
            let Some(id) = jobs.by_id.values().find(is_its).map(|job| job.lifecycle.id) else {
                jobs.waiting.push((request, respond));
                continue;
            };
            self.grant(jobs, id, request, respond);
        }
        self.changes.send_modify(|changes| *changes += 1);
    }

    fn grant(
        &self,
        jobs: &mut Jobs,
        id: JobId,
        request: LeaseRequest,
        respond: Box<dyn Respond<Option<Granted>>>,
    ) {
        jobs.made += 1;
        let lease = LeaseId(Uuid::from_u128(jobs.made));
        let claim = Input::Claim {
            node: NodeId::NIL,
            lease,
            worker: &request.worker,
            hold: request.hold,
        };
        self.apply(jobs, id, &claim).unwrap();
        let job = jobs.by_id.get_mut(&id).unwrap();
        job.events = request.events;
        job.is_restored = false;
        let granted = granted(job);
        if respond.respond(Some(granted)).is_err() {
            let fence = Fence::Lease(lease);
            let _back = self.apply(jobs, id, &Input::Lose(&fence, Loss::NotBegun));
        }
    }

    fn hear(
        &self,
        jobs: &mut Jobs,
        id: JobId,
        fence: &Fence,
        message: &LeaseMessage,
    ) -> Result<Standing, Rejection> {
        let now = self.clock.now();
        let before = jobs.by_id.get(&id).ok_or(Rejection::UnknownJob(id))?;
        let before = before.lifecycle.clone();
        let (input, ended) = match message {
            LeaseMessage::Ack => (Input::Ack(fence), None),
            LeaseMessage::Heartbeat { .. } => (Input::Heartbeat(fence), None),
            LeaseMessage::Complete { outcome, meter } => (
                Input::Complete(fence, outcome),
                Some((outcome.clone(), *meter)),
            ),
            LeaseMessage::CancelAck { partial } => {
                let partial = partial.clone();
                let outcome = Outcome::Cancelled { partial };
                (Input::CancelAck(fence), Some((outcome, Meter::default())))
            }
            LeaseMessage::GiveBack { begun: false } => (Input::Lose(fence, Loss::NotBegun), None),
            LeaseMessage::GiveBack { begun: true } => (Input::Lose(fence, Loss::WorkerGone), None),
        };
        self.apply(jobs, id, &input)?;
        let job = jobs.by_id.get_mut(&id).unwrap();
        if let Some((outcome, meter)) = ended {
            let name = outcome.as_str();
            let (result, failure) = match outcome {
                Outcome::Completed { result } => (result, None),
                Outcome::Failed(failure) => (None, Some(failure)),
                Outcome::Retry { .. } => unreachable!("no wire of this kind retries so"),
                Outcome::Cancelled { partial } => {
                    let kind = host_core::failure::FailureKind::Cancelled;
                    (partial, Some(Failure::new(kind, "it was asked to stop")))
                }
            };
            job.attempts
                .push(record(&before, name, failure.clone(), meter, now));
            (job.result, job.failure) = (result, failure);
        }
        if job.lifecycle.lease.is_none() {
            job.events = None;
        }
        let standing = Standing::from(&job.lifecycle);
        self.settle(jobs);
        Ok(standing)
    }
}

fn record(
    before: &Lifecycle,
    outcome: &str,
    failure: Option<Failure>,
    meter: Meter,
    now: Time,
) -> Attempt {
    Attempt {
        number: before.attempt,
        executor: before.lease.as_ref().unwrap().worker.clone(),
        revision: None,
        started_at: before.lease.as_ref().unwrap().granted_at,
        finished_at: now,
        outcome: outcome.to_owned(),
        failure,
        meter,
    }
}

fn granted(job: &Job) -> Granted {
    let (lifecycle, payload) = (&job.lifecycle, &job.payload);
    let lease = lifecycle.lease.as_ref().unwrap();
    Granted {
        job: lifecycle.id,
        lease: lease.id,
        expires_at: lease.expires_at,
        ack_by: lease.ack_by,
        assignment: Assignment {
            request_id: lease.id.0.to_string(),
            job_id: lifecycle.id.to_string(),
            handler: lifecycle.handler.to_string(),
            params: payload.params.clone(),
            queue: lifecycle.queue.to_string(),
            priority: lifecycle.priority,
            attempt: lifecycle.attempt,
            enqueued_at: lifecycle.enqueued_at,
            timeout_ms: lifecycle.policy.timeout_ms.unwrap_or(30_000),
            deadline: lifecycle.deadline,
            trace: payload.trace_context.clone(),
            attributes: payload.attributes.clone(),
            worker_id: "host".to_owned(),
            losses: 0,
        },
    }
}

fn kept(jobs: &Jobs, id: JobId) -> Option<Kept> {
    let job = jobs.by_id.get(&id)?;
    Some(Kept {
        job: JobDetail {
            lifecycle: job.lifecycle.clone(),
            ran_ms: 0,
            payload: job.payload.clone(),
            unique_key: None,
            depends_on: Vec::new(),
            result: job.result.clone(),
            failure: job.failure.clone(),
            progress: None,
        },
        attempts: job.attempts.clone(),
    })
}

impl Leases for Model {
    fn lease(&self, request: LeaseRequest, respond: Box<dyn Respond<Option<Granted>>>) {
        let mut jobs = self.jobs.lock().unwrap();
        jobs.waiting.push((request, respond));
        self.settle(&mut jobs);
    }

    fn tell(
        &self,
        job: JobId,
        fence: Fence,
        message: LeaseMessage,
        respond: Box<dyn Respond<Result<Standing, LeaseError>>>,
    ) {
        let mut jobs = self.jobs.lock().unwrap();
        let answer = self.hear(&mut jobs, job, &fence, &message);
        drop(jobs);
        let _gone = respond
            .respond(answer.map_err(LeaseError::Rejected))
            .is_err();
    }

    fn resume(
        &self,
        executor: Name,
        events: Arc<dyn LeaseEvents>,
        respond: Box<dyn Respond<Result<Vec<Resumed>, LeaseError>>>,
    ) {
        let mut jobs = self.jobs.lock().unwrap();
        let mut resumed = Vec::new();
        for job in jobs.by_id.values_mut() {
            if job.is_restored && job.lifecycle.runner.as_ref() == Some(&executor) {
                let Some(lease) = &job.lifecycle.lease else {
                    continue;
                };
                job.is_restored = false;
                job.events = Some(Arc::clone(&events));
                resumed.push(Resumed {
                    granted: granted(job),
                    granted_at: lease.granted_at,
                    worker: lease.worker.clone(),
                    cancel: job.lifecycle.cancel.clone(),
                });
            }
        }
        drop(jobs);
        let _gone = respond.respond(Ok(resumed)).is_err();
    }

    fn look(&self, job: JobId, respond: Box<dyn Respond<Result<Option<Kept>, LeaseError>>>) {
        let _gone = respond.respond(Ok(self.kept(job))).is_err();
    }
}
