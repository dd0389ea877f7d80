//! Slots with a host in memory that keeps their requests.

use host_core::json::JsonText;
use host_core::lease::{Fence, Revocation};
use host_core::port::lease::{LeaseError, LeaseMessage, Resumed, Standing, StoredJob};
use host_core::suspicion::Suspicion;
use host_core::time::Time;
use uuid::Uuid;

use super::*;

#[derive(Default)]
struct Host {
    requests: Mutex<Vec<(LeaseRequest, Box<dyn Respond<Vec<GrantedLease>>>)>>,
    ends: Mutex<Vec<AttemptEnd>>,
}

impl Leases for Host {
    fn lease(&self, request: LeaseRequest, respond: Box<dyn Respond<Vec<GrantedLease>>>) {
        self.requests.lock().push((request, respond));
    }

    fn end(&self, ended: AttemptEnd) {
        self.ends.lock().push(ended);
    }

    fn send(
        &self,
        _: JobId,
        _: Fence,
        message: LeaseMessage,
        _: Box<dyn Respond<Result<Standing, LeaseError>>>,
    ) {
        panic!("{message:?}");
    }

    fn resume(
        &self,
        _: Name,
        _: Arc<dyn LeaseEvents>,
        _: Box<dyn Respond<Result<Vec<Resumed>, LeaseError>>>,
    ) {
        panic!("nothing is resumed");
    }

    fn read(&self, job: JobId, _: Box<dyn Respond<Result<Option<StoredJob>, LeaseError>>>) {
        panic!("{job} is not read");
    }
}

impl Host {
    /// Returns the slots of each request that waits.
    fn take_counts(&self) -> Vec<usize> {
        let mut requests = self.requests.lock();
        requests.retain(|(_, respond)| !respond.is_gone());
        requests.iter().map(|(request, _)| request.slots).collect()
    }

    /// Answers the first request with these attempts.
    fn grant(&self, attempts: &[u128]) -> Result<(), Vec<GrantedLease>> {
        let (_, respond) = self.requests.lock().remove(0);
        respond.respond(attempts.iter().map(|n| granted(*n)).collect())
    }
}

fn granted(n: u128) -> GrantedLease {
    GrantedLease {
        job: JobId(Uuid::from_u128(n)),
        lease: LeaseId(Uuid::from_u128(n)),
        assignment: Assignment {
            request_id: n.to_string(),
            job_id: n.to_string(),
            handler: "echo".to_owned(),
            params: JsonText("{}".to_owned()),
            queue: "default".to_owned(),
            priority: 5,
            attempt: 1,
            enqueued_at: Time(0),
            timeout_ms: 1_000,
            deadline: None,
            trace: Vec::new(),
            attributes: Vec::new(),
            worker_id: "host".to_owned(),
            suspicion: Suspicion::NONE,
        },
        expires_at: None,
        ack_by: None,
    }
}

/// The calls that a wire got.
#[derive(Default)]
struct Calls(Mutex<Vec<String>>);

impl Calls {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }

    fn add(&self, call: String) {
        self.0.lock().push(call);
    }
}

impl Pusher for Calls {
    fn start(self: Arc<Self>, tag: Tag, executor: &Name, assignment: Assignment) {
        self.add(format!("{} at {executor} as {}", assignment.job_id, tag.0));
    }

    fn cancel(self: Arc<Self>, tag: Tag, grace_ms: u64) {
        self.add(format!("cancel {} {grace_ms}", tag.0));
    }

    fn recall(self: Arc<Self>) {
        self.add("recall".to_owned());
    }
}

fn slots() -> (Arc<Slots>, Arc<Host>, Arc<Calls>, Name) {
    let (host, calls) = (Arc::<Host>::default(), Arc::<Calls>::default());
    let slots = Slots::new(Arc::<Host>::clone(&host), 500);
    slots.connect(Arc::downgrade(&calls) as _);
    (slots, host, calls, "python".parse().unwrap())
}

#[test]
fn all_free_slots_are_asked_for_at_once() {
    let (slots, host, calls, python) = slots();
    slots.set_capacity(&python, 4);
    slots.set_capacity(&python, 4);
    assert_eq!(host.take_counts(), [4]);
    host.grant(&[1, 2, 3]).unwrap();
    let started = ["1 at python as 0", "2 at python as 1", "3 at python as 2"];
    assert_eq!(calls.take(), started);
    assert_eq!(host.take_counts(), [1]);
    host.grant(&[4]).unwrap();
    assert_eq!(host.take_counts(), [0; 0]);
    for tag in 0..4 {
        slots.end(Tag(tag), "python/1".to_owned(), End::NoRoom);
        slots.end(Tag(tag), "python/1".to_owned(), End::NoRoom);
    }
    // A wave of ends makes few requests.
    assert_eq!(host.take_counts(), [1, 1, 2]);
    let ends: Vec<u128> = host
        .ends
        .lock()
        .iter()
        .map(|ended| ended.job.0.as_u128())
        .collect();
    assert_eq!(ends, [1, 2, 3, 4]);
    assert_eq!(slots.in_flight(), [(python, 0)].into());
}

#[test]
fn requests_for_slots_that_are_gone_are_withdrawn() {
    let (slots, host, calls, python) = slots();
    slots.set_capacity(&python, 4);
    let (_, late) = host.requests.lock().remove(0);
    slots.set_capacity(&python, 1);
    assert!(late.is_gone());
    assert_eq!(late.respond(vec![granted(1)]).unwrap_err().len(), 1);
    assert_eq!((host.take_counts(), calls.take().len()), (vec![1], 0));
    slots.set_capacity(&python, 0);
    assert_eq!(host.take_counts(), [0; 0]);
}

#[test]
fn what_the_host_reports_of_an_attempt_reaches_the_wire() {
    let (slots, host, calls, python) = slots();
    slots.set_capacity(&python, 1);
    host.grant(&[7]).unwrap();
    calls.take();
    let GrantedLease { job, lease, .. } = granted(7);
    slots.cancelled(job, lease, 70);
    slots.revoked(job, lease, Revocation::Expired);
    slots.recalled();
    assert_eq!(calls.take(), ["cancel 0 70", "cancel 0 0", "recall"]);
    slots.end(Tag(0), "python/1".to_owned(), End::NoRoom);
    slots.cancelled(job, lease, 70);
    assert_eq!(calls.take(), [""; 0]);
    // An empty answer says that the host stops.
    host.grant(&[]).unwrap();
    slots.set_capacity(&python, 2);
    assert_eq!(host.take_counts(), [0; 0]);
}
