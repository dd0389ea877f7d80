//! The host of a wire that sends attempts to its workers, for tests: keeps the wire's requests, answers
//! them when a test gives an attempt, and keeps the ends. Attempts are numbered by the test.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use host_core::id::{JobId, LeaseId};
use host_core::json::JsonText;
use host_core::lease::Fence;
use host_core::name::Name;
use host_core::port::lease::{
    Assignment, End, Ended, Granted, Kept, LeaseError, LeaseEvents, LeaseMessage, LeaseRequest,
    Leases, Respond, Resumed, Standing,
};
use host_core::suspicion::Suspicion;
use host_core::time::Time;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;
use uuid::Uuid;

use crate::LeaseAudit;

/// Nothing in a test takes as long.
const BOUND: Duration = Duration::from_mins(1);

/// What the wire has asked for, and how attempts ended.
#[derive(Default)]
pub struct PushedAttempts {
    waiting: Mutex<Vec<(LeaseRequest, Box<dyn Respond<Vec<Granted>>>)>>,
    in_flight: Mutex<BTreeMap<u64, (Name, Arc<dyn LeaseEvents>)>>,
    ends: Mutex<BTreeMap<u64, (String, End)>>,
    /// Grows with every change.
    pub changes: watch::Sender<u64>,
}

/// Makes an attempt with a time limit of `timeout_ms`.
pub fn assignment(number: u64, handler: &str, params: &str, timeout_ms: u64) -> Assignment {
    Assignment {
        request_id: format!("request {number}"),
        job_id: job(number).to_string(),
        handler: handler.to_owned(),
        params: JsonText(params.to_owned()),
        queue: "default".to_owned(),
        priority: 5,
        attempt: 1,
        enqueued_at: Time(1_763_000_000_000),
        timeout_ms,
        deadline: None,
        trace: Vec::new(),
        attributes: Vec::new(),
        worker_id: "host".to_owned(),
        suspicion: Suspicion::NONE,
    }
}

/// Returns the job of an attempt.
pub fn job(number: u64) -> JobId {
    JobId(Uuid::from_u128(
        (0x0199_0f3c << 96) | (0x7000 << 64) | u128::from(number),
    ))
}

fn lease(number: u64) -> LeaseId {
    LeaseId(Uuid::from_u128(u128::from(number)))
}

impl PushedAttempts {
    /// Makes a host, and the audit that the wire uses it through.
    pub fn new() -> (Arc<Self>, Arc<LeaseAudit>) {
        let host = Arc::<Self>::default();
        let audit = LeaseAudit::new(Arc::<Self>::clone(&host));
        (host, audit)
    }

    fn changed(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// Returns how many attempts an executor takes, including those in flight.
    pub fn capacity(&self, executor: &str) -> usize {
        let mut waiting = self.waiting.lock();
        waiting.retain(|(_, respond)| !respond.is_gone());
        let asked = waiting.iter().map(|(request, _)| request);
        let asked = asked.filter(|request| request.executors[0].as_str() == executor);
        let asked: usize = asked.map(|request| request.slots).sum();
        let in_flight = self.in_flight.lock();
        let in_flight = in_flight.values();
        asked
            + in_flight
                .filter(|(its, _)| its.as_str() == executor)
                .count()
    }

    /// Gives the executor an attempt. Returns false if it asks for none.
    pub fn give(&self, executor: &str, number: u64, assignment: Assignment) -> bool {
        let mut waiting = self.waiting.lock();
        let asks = |(request, respond): &(LeaseRequest, Box<dyn Respond<_>>)| {
            request.executors[0].as_str() == executor && !respond.is_gone()
        };
        let Some(place) = waiting.iter().position(asks) else {
            return false;
        };
        let (request, respond) = waiting.remove(place);
        drop(waiting);
        let executor = request.executors[0].clone();
        let held = (executor, request.events.unwrap());
        self.in_flight.lock().insert(number, held);
        let granted = Granted {
            job: job(number),
            lease: lease(number),
            assignment,
            expires_at: None,
            ack_by: None,
        };
        respond.respond(vec![granted]).is_ok()
    }

    pub fn cancel(&self, number: u64, grace_ms: u64) {
        let events = Arc::clone(&self.in_flight.lock()[&number].1);
        events.cancelled(job(number), lease(number), grace_ms);
    }

    pub async fn until(&self, what: &str, is_it: impl Fn(&Self) -> bool) {
        let mut changes = self.changes.subscribe();
        let reached = timeout(BOUND, changes.wait_for(|_| is_it(self))).await;
        assert!(reached.is_ok(), "{what}: {:?}", self.ends.lock());
    }

    /// Waits until an executor takes so many attempts.
    pub async fn until_capacity(&self, executor: &str, attempts: usize) {
        let is_it = |host: &Self| host.capacity(executor) == attempts;
        // A request may be withdrawn without a new one.
        let reached = async {
            while !is_it(self) {
                tokio::task::yield_now().await;
            }
        };
        assert!(timeout(BOUND, reached).await.is_ok(), "{attempts}");
    }

    /// Waits for the end of an attempt, and returns it with its worker.
    pub async fn end_of(&self, number: u64) -> (String, End) {
        let has_ended = |host: &Self| host.ends.lock().contains_key(&number);
        self.until("an end", has_ended).await;
        self.ends.lock()[&number].clone()
    }

    /// Returns all ends by attempt.
    pub fn ends(&self) -> BTreeMap<u64, (String, End)> {
        self.ends.lock().clone()
    }
}

impl Leases for PushedAttempts {
    fn lease(&self, request: LeaseRequest, respond: Box<dyn Respond<Vec<Granted>>>) {
        self.waiting.lock().push((request, respond));
        self.changed();
    }

    fn end(&self, ended: Ended) {
        let number = u64::try_from(ended.lease.0.as_u128()).unwrap();
        assert_eq!(ended.job, job(number));
        assert!(self.in_flight.lock().remove(&number).is_some(), "{ended:?}");
        let end = (ended.worker, ended.end);
        let before = self.ends.lock().insert(number, end);
        assert_eq!(before, None, "attempt {number} has ended twice");
        self.changed();
    }

    fn send(
        &self,
        job: JobId,
        _: Fence,
        message: LeaseMessage,
        _: Box<dyn Respond<Result<Standing, LeaseError>>>,
    ) {
        panic!("{message:?} about {job}");
    }

    fn resume(
        &self,
        executor: Name,
        _: Arc<dyn LeaseEvents>,
        _: Box<dyn Respond<Result<Vec<Resumed>, LeaseError>>>,
    ) {
        panic!("{executor} has no leases of an earlier process");
    }

    fn read(&self, job: JobId, _: Box<dyn Respond<Result<Option<Kept>, LeaseError>>>) {
        panic!("{job} is not read");
    }
}
