//! Audits Lease: the host accepts the end of a lease once, and the end that a wire reports for a connection belongs to
//! a lease that it was granted.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Violations;
use host_core::id::{JobId, LeaseId};
use host_core::lease::Fence;
use host_core::name::Name;
use host_core::port::lease::{
    AttemptEnd, EndCause, GrantedLease, JobQuery, LeaseError, LeaseEvents, LeaseMessage,
    LeaseRequest, Leases, Respond, Resumed, Standing, StoredJob,
};

/// Stands between a wire whose workers execute our jobs and the host. The wire must wait for the answer to a
/// message before it sends the next one about the same lease.
pub struct LeaseAudit {
    state: Arc<State>,
    leases: Arc<dyn Leases>,
}

#[derive(Default)]
struct State {
    granted: Mutex<BTreeMap<(JobId, LeaseId), Lease>>,
    violations: Violations,
}

/// One lease that was granted.
struct Lease {
    attempt: u32,
    worker: String,
    /// Why no more messages about the lease are allowed.
    over: Option<String>,
    /// Whether the host accepted the end of the lease.
    has_ended: bool,
}

impl LeaseAudit {
    /// Passes requests and messages on to `leases`.
    pub fn new(leases: Arc<dyn Leases>) -> Arc<Self> {
        Arc::new(Self {
            state: Arc::default(),
            leases,
        })
    }

    /// Records a lease that `worker` got before the wire or the host restarted.
    pub fn adopt(&self, granted: &GrantedLease, worker: &str) {
        self.state.grant(granted, worker);
    }

    /// Returns the violations, in order.
    pub fn violations(&self) -> Vec<String> {
        self.state.violations.list()
    }

    /// Checks that there are no violations so far. Leases may still be held.
    pub fn assert_kept(&self) {
        self.state.violations.assert_none("Lease");
    }

    /// Checks that there are no violations and that no lease is held any more, as far as the wire
    /// knows.
    pub fn assert_settled(&self) {
        self.assert_kept();
        let granted = self.state.granted.lock();
        let held: Vec<_> = granted
            .iter()
            .filter(|(_, lease)| lease.over.is_none())
            .map(|(key, _)| *key)
            .collect();
        assert!(held.is_empty(), "still held: {held:?}");
    }
}

impl Leases for LeaseAudit {
    fn lease(&self, request: LeaseRequest, respond: Box<dyn Respond<Vec<GrantedLease>>>) {
        let grant = AuditedGrant {
            state: Arc::clone(&self.state),
            worker: request.worker.clone(),
            slots: request.slots,
            respond,
        };
        self.leases.lease(request, Box::new(grant));
    }

    fn end(&self, ended: AttemptEnd) {
        self.state.end(&ended);
        self.leases.end(ended);
    }

    fn send(
        &self,
        job: JobId,
        fence: Fence,
        message: LeaseMessage,
        respond: Box<dyn Respond<Result<Standing, LeaseError>>>,
    ) {
        let lease = self.state.lease(job, &fence);
        let answer = AuditedAnswer {
            state: Arc::clone(&self.state),
            lease: lease.map(|lease| (job, lease)),
            ends: !matches!(
                message,
                LeaseMessage::Ack
                    | LeaseMessage::Heartbeat { .. }
                    | LeaseMessage::CancelReceived { .. }
            ),
            respond,
        };
        self.leases.send(job, fence, message, Box::new(answer));
    }

    fn resume(
        &self,
        executor: Name,
        events: Arc<dyn LeaseEvents>,
        respond: Box<dyn Respond<Result<Vec<Resumed>, LeaseError>>>,
    ) {
        let answer = AuditedResume {
            state: Arc::clone(&self.state),
            respond,
        };
        self.leases.resume(executor, events, Box::new(answer));
    }

    fn read(&self, job: JobId, respond: Box<dyn Respond<Result<Option<StoredJob>, LeaseError>>>) {
        self.leases.read(job, respond);
    }

    fn await_end(&self, lease: LeaseId, respond: Box<dyn Respond<EndCause>>) {
        self.leases.await_end(lease, respond);
    }

    fn find_worker(
        &self,
        job: JobId,
        lease: LeaseId,
        respond: Box<dyn Respond<Result<Option<String>, LeaseError>>>,
    ) {
        self.leases.find_worker(job, lease, respond);
    }

    fn workers(&self, prefix: &str) -> BTreeMap<String, usize> {
        self.leases.workers(prefix)
    }

    fn find(&self, wanted: JobQuery, respond: Box<dyn Respond<Result<Option<JobId>, LeaseError>>>) {
        self.leases.find(wanted, respond);
    }
}

impl State {
    fn grant(&self, granted: &GrantedLease, worker: &str) {
        let lease = Lease {
            attempt: granted.assignment.attempt,
            worker: worker.to_owned(),
            over: None,
            has_ended: false,
        };
        let key = (granted.job, granted.lease);
        if self.granted.lock().insert(key, lease).is_some() {
            self.violations.note(format!("{key:?} is granted twice"));
        }
    }

    /// Records an end that is not answered.
    fn end(&self, ended: &AttemptEnd) {
        let why = match self.granted.lock().get_mut(&(ended.job, ended.lease)) {
            None => "which was never granted".to_owned(),
            Some(lease) => match lease.over.replace("its end".to_owned()) {
                None => return,
                Some(why) => format!("after {why}"),
            },
        };
        let (job, end) = (ended.job, &ended.end);
        self.violations.note(format!("{end:?} of job {job} {why}"));
    }

    /// Finds the lease that a message is about.
    fn lease(&self, job: JobId, fence: &Fence) -> Option<LeaseId> {
        let granted = self.granted.lock();
        let mut of_job = granted.iter().filter(|((its, _), _)| *its == job);
        // A worker's name refers to its latest attempt.
        let fence = match fence {
            Fence::Remote(inner) => inner,
            other => other,
        };
        let found = match fence {
            Fence::Lease(id) | Fence::Holder(id, _) => of_job.find(|((_, lease), _)| lease == id),
            Fence::Attempt(number) => of_job.find(|(_, lease)| lease.attempt == *number),
            Fence::Worker(worker) => of_job
                .filter(|(_, lease)| lease.worker == *worker)
                .max_by_key(|(_, lease)| lease.attempt),
            Fence::Remote(_) => None,
        };
        found.map(|((_, id), _)| *id)
    }

    /// Records the host's answer to a message. `ends` means that the message ends the lease.
    fn record_answer(
        &self,
        key: (JobId, LeaseId),
        ends: bool,
        answer: &Result<Standing, LeaseError>,
    ) {
        let mut granted = self.granted.lock();
        let Some(lease) = granted.get_mut(&key) else {
            return;
        };
        match answer {
            Ok(standing) if lease.has_ended && !standing.is_repeated => self
                .violations
                .note(format!("a message is accepted after the end of {key:?}")),
            Ok(_) if ends => {
                lease.has_ended = true;
                lease.over = Some("its end was accepted".to_owned());
            }
            Err(error @ (LeaseError::Over(_) | LeaseError::Unknown)) => {
                lease.over = Some(format!("the refusal: {error}"));
            }
            Ok(_) | Err(_) => {}
        }
    }
}

/// The answer to a request for work, behind the audit.
struct AuditedGrant {
    state: Arc<State>,
    worker: String,
    slots: usize,
    respond: Box<dyn Respond<Vec<GrantedLease>>>,
}

impl Respond<Vec<GrantedLease>> for AuditedGrant {
    fn is_gone(&self) -> bool {
        self.respond.is_gone()
    }

    fn respond(self: Box<Self>, answer: Vec<GrantedLease>) -> Result<(), Vec<GrantedLease>> {
        if answer.len() > self.slots {
            let (granted, slots) = (answer.len(), self.slots);
            self.state
                .violations
                .note(format!("{granted} attempts for {slots} slots"));
        }
        // Record the leases before the answer: the worker's first message may arrive before this
        // call returns.
        for granted in &answer {
            self.state.grant(granted, &self.worker);
        }
        self.respond.respond(answer).inspect_err(|untaken| {
            let mut all = self.state.granted.lock();
            for granted in untaken {
                all.remove(&(granted.job, granted.lease));
            }
        })
    }
}

/// The answer to a message, behind the audit.
struct AuditedAnswer {
    state: Arc<State>,
    lease: Option<(JobId, LeaseId)>,
    ends: bool,
    respond: Box<dyn Respond<Result<Standing, LeaseError>>>,
}

impl Respond<Result<Standing, LeaseError>> for AuditedAnswer {
    fn is_gone(&self) -> bool {
        self.respond.is_gone()
    }

    fn respond(
        self: Box<Self>,
        answer: Result<Standing, LeaseError>,
    ) -> Result<(), Result<Standing, LeaseError>> {
        if let Some(key) = self.lease {
            self.state.record_answer(key, self.ends, &answer);
        }
        self.respond.respond(answer)
    }
}

/// The leases of an earlier life of the host, behind the audit.
struct AuditedResume {
    state: Arc<State>,
    respond: Box<dyn Respond<Result<Vec<Resumed>, LeaseError>>>,
}

impl Respond<Result<Vec<Resumed>, LeaseError>> for AuditedResume {
    fn is_gone(&self) -> bool {
        self.respond.is_gone()
    }

    fn respond(
        self: Box<Self>,
        answer: Result<Vec<Resumed>, LeaseError>,
    ) -> Result<(), Result<Vec<Resumed>, LeaseError>> {
        for resumed in answer.iter().flatten() {
            self.state.grant(&resumed.granted, &resumed.worker);
        }
        self.respond.respond(answer)
    }
}
