//! A host in memory for tests: jobs under the real rules, a clock that stands still until it is moved,
//! and every lease under the audit of its door.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use host_core::cell::LogLine;
use host_core::failure::Failure;
use host_core::id::{JobId, LeaseId, NodeId};
use host_core::job::{Lifecycle, NewJob, Payload, State};
use host_core::json::JsonText;
use host_core::lease::{Fence, Lease};
use host_core::name::Name;
use host_core::outcome::{Attempt, Meter, Outcome, Progress};
use host_core::policy::Policy;
use host_core::port::lease::{
    Granted, Kept, LeaseError, LeaseEvents, LeaseMessage, LeaseRequest, Leases, Respond, Resumed,
    Standing,
};
use host_core::port::{Assignment, Clock, Counters};
use host_core::query::JobDetail;
use host_core::time::Time;
use host_core::transition::{Effect, Input, Loss};
use uuid::Uuid;

use crate::wire::JobLogs;

/// When every test begins.
pub(super) const START: Time = Time(1_800_000_000_000);

/// One job, with what is kept of its attempts.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) lifecycle: Lifecycle,
    payload: Payload,
    events: Option<EventsOf>,
    /// Number, worker and outcome of each attempt that ended.
    pub(super) attempts: Vec<(u32, String, String)>,
    pub(super) result: Option<JsonText>,
    pub(super) failure: Option<Failure>,
    pub(super) progress: Option<Progress>,
}

struct EventsOf(Arc<dyn LeaseEvents>);

impl std::fmt::Debug for EventsOf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("events")
    }
}

struct Waiting {
    request: LeaseRequest,
    until: Time,
    respond: Box<dyn Respond<Option<Granted>>>,
}

#[derive(Default)]
struct Inner {
    now: Time,
    jobs: BTreeMap<JobId, Job>,
    waiting: Vec<Waiting>,
    made: u128,
    /// Fails the next messages with this error.
    failing: Option<LeaseError>,
    refused: Vec<&'static str>,
    logged: Vec<(JobId, u32, String)>,
}

/// The host.
pub(super) struct Model(Mutex<Inner>);

type Told = Vec<Box<dyn FnOnce() + Send>>;

impl Model {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Inner {
            now: START,
            ..Inner::default()
        })))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    /// Accepts a job.
    pub(super) fn enqueue(
        &self,
        runner: &str,
        params: &str,
        attributes: &[(&str, &str)],
        policy: Policy,
    ) -> JobId {
        let mut inner = self.inner();
        inner.made += 1;
        let id = JobId(Uuid::from_u128(inner.made));
        let attributes = attributes.iter();
        let new = NewJob {
            id,
            handler: "unit-tests".parse().unwrap(),
            runner: Some(runner.parse().unwrap()),
            queue: Name::default_queue(),
            priority: 5,
            run_at: None,
            deadline: None,
            policy,
            unique_key: None,
            depends_on: Vec::new(),
            payload: Payload {
                params: JsonText(params.to_owned()),
                wire: "http".to_owned(),
                external_id: None,
                trace_context: Vec::new(),
                attributes: attributes
                    .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                    .collect(),
            },
        };
        let job = Job {
            lifecycle: Lifecycle::accept(inner.now, &new, 0),
            payload: new.payload,
            events: None,
            attempts: Vec::new(),
            result: None,
            failure: None,
            progress: None,
        };
        inner.jobs.insert(id, job);
        let told = inner.claim();
        drop(inner);
        tell(told);
        id
    }

    /// Asks for the stop of a job.
    pub(super) fn cancel(&self, job: JobId) {
        let mut inner = self.inner();
        let input = Input::Cancel {
            reason: None,
            grace_ms: None,
        };
        let (_, told) = inner.apply(job, &input);
        drop(inner);
        tell(told);
    }

    /// Moves the clock.
    pub(super) fn advance(&self, ms: u64) {
        let mut inner = self.inner();
        inner.now = inner.now.plus_ms(ms);
        let mut told = Told::new();
        let ids: Vec<JobId> = inner.jobs.keys().copied().collect();
        for id in ids {
            while inner.jobs[&id]
                .lifecycle
                .wakeup()
                .is_some_and(|due| due <= inner.now)
                && !inner.jobs[&id].lifecycle.state.is_terminal()
            {
                told.extend(inner.apply(id, &Input::Tick).1);
            }
        }
        told.extend(inner.claim());
        drop(inner);
        tell(told);
    }

    /// Forgets who hears of leases, as a restart of the host does.
    pub(super) fn restart(&self) {
        for job in self.inner().jobs.values_mut() {
            job.events = None;
        }
    }

    /// Fails every message until it is called with `None`.
    pub(super) fn fail(&self, error: Option<LeaseError>) {
        self.inner().failing = error;
    }

    pub(super) fn look<T>(&self, id: JobId, look: impl FnOnce(&Job) -> T) -> T {
        look(&self.inner().jobs[&id])
    }

    pub(super) fn state(&self, id: JobId) -> State {
        self.look(id, |job| job.lifecycle.state)
    }

    /// Returns number and outcome of each attempt, with its worker.
    pub(super) fn attempts(&self, id: JobId) -> String {
        let shown = |job: &Job| {
            let attempts = job.attempts.iter();
            let attempts = attempts.map(|(n, worker, outcome)| format!("{n} {worker} {outcome}"));
            attempts.collect::<Vec<_>>().join(", ")
        };
        self.look(id, shown)
    }

    /// Returns how many requests wait for a job.
    pub(super) fn waiting(&self) -> usize {
        let inner = self.inner();
        let waiting = inner.waiting.iter();
        waiting.filter(|it| !it.respond.is_gone()).count()
    }

    pub(super) fn refused(&self) -> Vec<&'static str> {
        self.inner().refused.clone()
    }

    pub(super) fn logged(&self) -> Vec<(JobId, u32, String)> {
        self.inner().logged.clone()
    }
}

fn tell(told: Told) {
    for each in told {
        each();
    }
}

impl Inner {
    /// Applies an input, keeps what it ends, and returns who must be told.
    fn apply(&mut self, id: JobId, input: &Input<'_>) -> (Result<Standing, LeaseError>, Told) {
        let now = self.now;
        let Some(job) = self.jobs.get_mut(&id) else {
            let unknown = host_core::rejection::Rejection::UnknownJob(id);
            return (Err(unknown.into()), Told::new());
        };
        let before = job.lifecycle.clone();
        let effects = match job.lifecycle.apply(now, input) {
            Ok(effects) => effects,
            Err(rejection) => return (Err(rejection.into()), Told::new()),
        };
        let worker = before.lease.as_ref().map(|lease| lease.worker.clone());
        let worker = worker.unwrap_or_default();
        match input {
            Input::Complete(_, outcome) => {
                let ended = (before.attempt, worker.clone(), outcome.as_str().to_owned());
                job.attempts.push(ended);
                match outcome {
                    Outcome::Completed { result } => job.result = result.clone(),
                    Outcome::Failed(failure) => job.failure = Some(failure.clone()),
                    Outcome::Cancelled { partial } => job.result = partial.clone(),
                    Outcome::Retry { .. } => {}
                }
            }
            Input::CancelAck(_) => {
                let ended = (before.attempt, worker.clone(), "cancelled".to_owned());
                job.attempts.push(ended);
            }
            _ => {}
        }
        let mut told = Told::new();
        let events = job.events.as_ref().map(|events| Arc::clone(&events.0));
        for effect in effects {
            match (effect, events.clone()) {
                (Effect::AttemptLost { failure }, _) => {
                    job.attempts
                        .push((before.attempt, worker.clone(), "lost".to_owned()));
                    job.failure = Some(failure);
                }
                (Effect::Revoke { lease }, Some(events)) => {
                    told.push(Box::new(move || events.revoked(id, lease)));
                }
                (
                    Effect::Stop {
                        lease, grace_ms, ..
                    },
                    Some(events),
                ) => {
                    let grace_ms = grace_ms.unwrap_or_default();
                    told.push(Box::new(move || events.cancelled(id, lease, grace_ms)));
                }
                _ => {}
            }
        }
        let standing = Standing::from(&job.lifecycle);
        told.extend(self.claim());
        (Ok(standing), told)
    }

    /// Gives available jobs to those who wait.
    fn claim(&mut self) -> Told {
        let mut told = Told::new();
        let mut left = Vec::new();
        for waiting in std::mem::take(&mut self.waiting) {
            if waiting.respond.is_gone() {
                continue;
            }
            let found = waiting.request.executors.iter().find_map(|executor| {
                let mut jobs = self.jobs.iter();
                let found = jobs.find(|(_, job)| {
                    job.lifecycle.state == State::Available
                        && job.lifecycle.runner.as_ref() == Some(executor)
                });
                found.map(|(id, _)| *id)
            });
            match found {
                Some(id) => told.push(self.grant(id, waiting)),
                None if waiting.until <= self.now => {
                    let respond = waiting.respond;
                    told.push(Box::new(move || drop(respond.respond(None))));
                }
                None => left.push(waiting),
            }
        }
        self.waiting = left;
        told
    }

    fn grant(&mut self, id: JobId, waiting: Waiting) -> Box<dyn FnOnce() + Send> {
        self.made += 1;
        let lease = LeaseId(Uuid::from_u128(self.made << 64));
        let now = self.now;
        let job = self.jobs.get_mut(&id).unwrap();
        let claim = Input::Claim {
            node: NodeId::NIL,
            lease,
            worker: &waiting.request.worker,
            hold: waiting.request.hold,
        };
        job.lifecycle.apply(now, &claim).unwrap();
        job.events = waiting.request.events.map(EventsOf);
        let held: &Lease = job.lifecycle.lease.as_ref().unwrap();
        let granted = Granted {
            job: id,
            lease,
            expires_at: held.expires_at,
            ack_by: held.ack_by,
            assignment: Assignment {
                request_id: lease.0.to_string(),
                job_id: id.to_string(),
                handler: job.lifecycle.handler.to_string(),
                params: job.payload.params.clone(),
                queue: "default".to_owned(),
                priority: job.lifecycle.priority,
                attempt: job.lifecycle.attempt,
                losses: 0,
                enqueued_at: job.lifecycle.enqueued_at,
                timeout_ms: job.lifecycle.policy.timeout_ms.unwrap_or(30_000),
                deadline: None,
                trace: Vec::new(),
                attributes: job.payload.attributes.clone(),
                worker_id: "host".to_owned(),
            },
        };
        Box::new(move || drop(waiting.respond.respond(Some(granted))))
    }
}

impl Leases for Model {
    fn lease(&self, request: LeaseRequest, respond: Box<dyn Respond<Option<Granted>>>) {
        let mut inner = self.inner();
        let until = inner.now.plus_ms(request.wait_ms);
        inner.waiting.push(Waiting {
            request,
            until,
            respond,
        });
        let told = inner.claim();
        drop(inner);
        tell(told);
    }

    fn tell(
        &self,
        job: JobId,
        fence: Fence,
        message: LeaseMessage,
        respond: Box<dyn Respond<Result<Standing, LeaseError>>>,
    ) {
        let mut inner = self.inner();
        if let Some(error) = inner.failing.clone() {
            drop(inner);
            return drop(respond.respond(Err(error)));
        }
        let (answer, told) = match &message {
            LeaseMessage::Ack => inner.apply(job, &Input::Ack(&fence)),
            LeaseMessage::Heartbeat { progress } => {
                let (answer, told) = inner.apply(job, &Input::Heartbeat(&fence));
                if let (Ok(_), Some(progress), Some(job)) =
                    (&answer, progress, inner.jobs.get_mut(&job))
                {
                    job.progress = Some(progress.clone());
                }
                (answer, told)
            }
            LeaseMessage::Complete { outcome, .. } => {
                inner.apply(job, &Input::Complete(&fence, outcome))
            }
            LeaseMessage::CancelAck { partial } => {
                let (answer, told) = inner.apply(job, &Input::CancelAck(&fence));
                if let (Ok(_), Some(job)) = (&answer, inner.jobs.get_mut(&job)) {
                    job.result.clone_from(partial);
                }
                (answer, told)
            }
            LeaseMessage::GiveBack { begun } => {
                let loss = if *begun {
                    Loss::WorkerGone
                } else {
                    Loss::NotBegun
                };
                inner.apply(job, &Input::Lose(&fence, loss))
            }
        };
        drop(inner);
        let _gone = respond.respond(answer).is_err();
        tell(told);
    }

    fn resume(
        &self,
        _: Name,
        _: Arc<dyn LeaseEvents>,
        _: Box<dyn Respond<Result<Vec<Resumed>, LeaseError>>>,
    ) {
        panic!("the wire resumes no leases: their messages name all that is needed");
    }

    fn look(&self, id: JobId, respond: Box<dyn Respond<Result<Option<Kept>, LeaseError>>>) {
        let kept = self.inner().jobs.get(&id).map(Job::kept);
        let _gone = respond.respond(Ok(kept)).is_err();
    }
}

impl Job {
    fn kept(&self) -> Kept {
        let last = self.attempts.len();
        let attempts = (1..).zip(&self.attempts);
        let attempt =
            |(at, (number, executor, outcome)): (usize, &(u32, String, String))| Attempt {
                number: *number,
                executor: executor.clone(),
                revision: None,
                started_at: START,
                finished_at: START,
                outcome: outcome.clone(),
                failure: self.failure.clone().filter(|_| at == last),
                meter: Meter::default(),
            };
        Kept {
            job: JobDetail {
                ran_ms: 0,
                lifecycle: self.lifecycle.clone(),
                payload: self.payload.clone(),
                unique_key: None,
                depends_on: Vec::new(),
                result: self.result.clone(),
                failure: self.failure.clone(),
                progress: self.progress.clone(),
            },
            attempts: attempts.map(attempt).collect(),
        }
    }
}

impl Clock for Model {
    fn now(&self) -> Time {
        self.inner().now
    }

    fn wall(&self) -> Time {
        self.inner().now
    }
}

impl Counters for Model {
    fn refused(&self, wire: &'static str, code: &'static str) {
        assert_eq!(wire, super::NAME);
        self.inner().refused.push(code);
    }
}

impl JobLogs for Model {
    fn keep(&self, job: JobId, attempt: u32, _: Time, lines: Vec<LogLine>) -> bool {
        let mut inner = self.inner();
        for line in lines {
            inner.logged.push((job, attempt, line.message));
        }
        true
    }
}
