//! A host in memory that has jobs, grants leases behind the auditor, and keeps what comes back.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use host_core::id::{JobId, LeaseId};
use host_core::job::State as JobState;
use host_core::lease::Fence;
use host_core::name::Name;
use host_core::outcome::Outcome;
use host_core::port::Counters;
use host_core::port::conformance::LeaseAudit;
use host_core::port::lease::{
    Ended, Granted, Kept, LeaseError, LeaseEvents, LeaseMessage, LeaseRequest, Leases, Respond,
    Resumed, Standing,
};
use host_core::rejection::Rejection;
use tokio::sync::watch;
use tokio::time::timeout;
use uuid::Uuid;

use super::assignment;
use crate::beads::WIRE;

/// Nothing in a test takes as long.
const BOUND: Duration = Duration::from_mins(1);

type Waiting = (LeaseRequest, Box<dyn Respond<Vec<Granted>>>);

struct Held {
    lease: LeaseId,
    events: Option<Arc<dyn LeaseEvents>>,
}

#[derive(Default)]
struct Jobs {
    available: VecDeque<u64>,
    waiting: Vec<Waiting>,
    held: BTreeMap<u64, Held>,
    leases_made: u128,
}

/// What a test may look at.
#[derive(Clone, Debug, Default)]
pub(in crate::beads) struct Seen {
    pub(in crate::beads) running: usize,
    pub(in crate::beads) done: BTreeMap<u64, String>,
    pub(in crate::beads) failed: Vec<(u64, String)>,
    pub(in crate::beads) given_back: usize,
    pub(in crate::beads) cancelled: usize,
    pub(in crate::beads) refused: Vec<&'static str>,
}

#[derive(Default)]
pub(in crate::beads) struct LeaseHost {
    jobs: Mutex<Jobs>,
    pub(in crate::beads) seen: watch::Sender<Seen>,
}

fn number(job: JobId) -> u64 {
    u64::try_from(job.0.as_u128()).unwrap()
}

impl LeaseHost {
    /// Makes a host and the auditor in front of it.
    pub(in crate::beads) fn start() -> (Arc<Self>, Arc<LeaseAudit>) {
        let host = Arc::new(Self::default());
        let audit = LeaseAudit::new(Arc::<Self>::clone(&host));
        (host, audit)
    }

    /// Makes jobs available.
    pub(in crate::beads) fn add(&self, jobs: impl IntoIterator<Item = u64>) {
        self.jobs.lock().unwrap().available.extend(jobs);
        self.grant();
    }

    /// Cancels a running job.
    pub(in crate::beads) fn cancel(&self, job: u64, grace_ms: u64) {
        let (lease, events) = {
            let jobs = self.jobs.lock().unwrap();
            let held = &jobs.held[&job];
            (held.lease, held.events.clone())
        };
        let id = JobId(Uuid::from_u128(job.into()));
        events.unwrap().cancelled(id, lease, grace_ms);
    }

    pub(in crate::beads) async fn until(&self, condition: impl Fn(&Seen) -> bool) {
        let mut seen = self.seen.subscribe();
        let is_reached = timeout(BOUND, seen.wait_for(|seen| condition(seen)))
            .await
            .is_ok();
        assert!(is_reached, "it does not come: {:?}", self.seen.borrow());
    }

    /// Gives available jobs to those who wait.
    fn grant(&self) {
        while let Some((granted, respond)) = self.next() {
            let job = number(granted.job);
            self.seen.send_modify(|seen| seen.running += 1);
            if respond.respond(vec![granted]).is_err() {
                let mut jobs = self.jobs.lock().unwrap();
                jobs.held.remove(&job);
                jobs.available.push_front(job);
                self.seen.send_modify(|seen| seen.running -= 1);
            }
        }
    }

    fn next(&self) -> Option<(Granted, Box<dyn Respond<Vec<Granted>>>)> {
        let mut jobs = self.jobs.lock().unwrap();
        jobs.waiting.retain(|(_, respond)| !respond.is_gone());
        if jobs.waiting.is_empty() {
            return None;
        }
        let job = jobs.available.pop_front()?;
        let (request, respond) = jobs.waiting.remove(0);
        jobs.leases_made += 1;
        let lease = LeaseId(Uuid::from_u128(jobs.leases_made << 64));
        let events = request.events;
        let before = jobs.held.insert(job, Held { lease, events });
        assert!(before.is_none(), "{job} is granted twice");
        let granted = Granted {
            job: JobId(Uuid::from_u128(job.into())),
            lease,
            assignment: assignment(&format!("issue-{job}"), "{}", 5),
            expires_at: None,
            ack_by: None,
        };
        Some((granted, respond))
    }

    fn take(&self, job: u64, fence: &Fence) -> Result<(), LeaseError> {
        let mut jobs = self.jobs.lock().unwrap();
        match jobs.held.get(&job) {
            Some(held) if *fence == Fence::Lease(held.lease) => {
                jobs.held.remove(&job);
                Ok(())
            }
            _ => Err(LeaseError::Rejected(Rejection::Stale)),
        }
    }
}

impl Leases for LeaseHost {
    fn lease(&self, request: LeaseRequest, respond: Box<dyn Respond<Vec<Granted>>>) {
        let refused = {
            let mut jobs = self.jobs.lock().unwrap();
            if request.wait_ms > 0 || !jobs.available.is_empty() {
                jobs.waiting.push((request, respond));
                None
            } else {
                Some(respond)
            }
        };
        match refused {
            None => self.grant(),
            Some(respond) => drop(respond.respond(Vec::new())),
        }
    }

    fn end(&self, ended: Ended) {
        panic!("{ended:?}");
    }

    fn send(
        &self,
        job: JobId,
        fence: Fence,
        message: LeaseMessage,
        respond: Box<dyn Respond<Result<Standing, LeaseError>>>,
    ) {
        let number = number(job);
        if let Err(error) = self.take(number, &fence) {
            return drop(respond.respond(Err(error)));
        }
        let mut again = false;
        self.seen.send_modify(|seen| {
            seen.running -= 1;
            match message {
                LeaseMessage::Complete { outcome, .. } => match outcome {
                    Outcome::Completed { result } => {
                        let before = seen.done.insert(number, result.unwrap().0);
                        assert_eq!(before, None, "a job is done once");
                    }
                    Outcome::Failed(failure) => {
                        seen.failed.push((number, failure.message));
                        again = true;
                    }
                    other => panic!("{other:?}"),
                },
                LeaseMessage::GiveBack { .. } => {
                    seen.given_back += 1;
                    again = true;
                }
                LeaseMessage::CancelAck { .. } => seen.cancelled += 1,
                other => panic!("{other:?}"),
            }
        });
        let standing = Standing {
            state: JobState::Completed,
            attempt: 1,
            cancel: None,
            expires_at: None,
        };
        drop(respond.respond(Ok(standing)));
        if again {
            self.add([number]);
        }
    }

    fn resume(
        &self,
        _: Name,
        _: Arc<dyn LeaseEvents>,
        _: Box<dyn Respond<Result<Vec<Resumed>, LeaseError>>>,
    ) {
        panic!("leases held by connection end with the host");
    }

    fn read(&self, job: JobId, _: Box<dyn Respond<Result<Option<Kept>, LeaseError>>>) {
        panic!("nobody asks for {job}");
    }
}

impl Counters for LeaseHost {
    fn refused(&self, wire: &'static str, code: &'static str) {
        assert_eq!(wire, WIRE);
        self.seen.send_modify(|seen| seen.refused.push(code));
    }
}
