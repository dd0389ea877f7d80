//! Jobs for workers that pull, through the loop, with workers in memory. Every case runs on both
//! stores.

mod book;
mod life;
mod renewals;
mod table;
mod waiting;

use std::sync::Arc;

use host_core::id::{JobId, LeaseId};
use host_core::job::NewJob;
use host_core::json::JsonText;
use host_core::lease::{Fence, Hold, Revocation};
use host_core::outcome::{Meter, Outcome};
use host_core::port::lease::{
    GrantedLease, JobQuery, LeaseError, LeaseEvents, LeaseMessage, LeaseRequest, Leases, Resumed,
    Standing, StoredJob,
};
use host_core::time::Time;
use host_engine::Store;
use host_runtime::mailbox::respond;
use host_store::sqlite::SqliteStore;
use host_testing::LeaseAudit;
use host_testing::store::MemoryStore;
use tempfile::TempDir;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use super::bench::{Bench, PATIENCE, job};
use super::failing::{Disk, FailingStore};

/// Longer than any test takes, in milliseconds.
const LONG_MS: u64 = 600_000;

/// Short enough to pass while a test waits, in milliseconds.
const SHORT_MS: u64 = 30;

/// A lease that does not run out during a test.
pub(super) const LONG: Hold = Hold::Ttl { ttl_ms: LONG_MS };

/// A lease that runs out while a test waits.
const SHORT: Hold = Hold::Ttl { ttl_ms: SHORT_MS };

/// The store of a case.
enum Engine {
    Memory,
    Sqlite(TempDir),
}

impl Engine {
    fn sqlite() -> Self {
        Self::Sqlite(TempDir::new().unwrap())
    }

    fn store(&self) -> Box<dyn Store> {
        match self {
            Self::Memory => Box::new(MemoryStore::default()),
            Self::Sqlite(folder) => {
                Box::new(SqliteStore::open(&folder.path().join("host.db")).unwrap())
            }
        }
    }

    async fn bench(&self) -> Bench {
        Bench::start_with(self.store()).await
    }

    async fn bench_on(&self, disk: Disk) -> Bench {
        let below = self.store();
        Bench::start_with(Box::new(FailingStore { below, disk })).await
    }
}

/// Makes a test of each case for each store.
macro_rules! on_both_stores {
    ($($case:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test]
            async fn $case() {
                super::$case(crate::dispatch_loop::tests::leases::Engine::Memory).await;
            })*
        }

        mod sqlite {
            $(#[tokio::test]
            async fn $case() {
                super::$case(crate::dispatch_loop::tests::leases::Engine::sqlite()).await;
            })*
        }
    };
}
use on_both_stores;

/// A message that the host sends to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Cancelled(JobId, LeaseId, u64),
    Revoked(JobId, LeaseId, Revocation),
}

#[derive(Default)]
struct Inbox(watch::Sender<Vec<Event>>);

impl LeaseEvents for Inbox {
    fn cancelled(&self, job: JobId, lease: LeaseId, grace_ms: u64) {
        let event = Event::Cancelled(job, lease, grace_ms);
        self.0.send_modify(|all| all.push(event));
    }

    fn revoked(&self, job: JobId, lease: LeaseId, why: Revocation) {
        let event = Event::Revoked(job, lease, why);
        self.0.send_modify(|all| all.push(event));
    }
}

/// A worker that pulls. [`Worker::tell`] audits its messages.
pub(super) struct Worker {
    name: String,
    hold: Hold,
    audit: Arc<LeaseAudit>,
    leases: Arc<dyn Leases>,
    inbox: Arc<Inbox>,
}

impl Worker {
    pub(super) fn of(bench: &Bench, name: &str, hold: Hold) -> Self {
        let leases: Arc<dyn Leases> = Arc::new(bench.leases.clone());
        Self {
            name: name.to_owned(),
            hold,
            audit: LeaseAudit::new(Arc::clone(&leases)),
            leases,
            inbox: Arc::default(),
        }
    }

    fn request(&self, executors: &[&str], wait_ms: u64) -> LeaseRequest {
        let executors = executors.iter().map(|name| name.parse().unwrap());
        LeaseRequest {
            executors: executors.collect(),
            worker: self.name.clone(),
            slots: 1,
            hold: self.hold,
            wait_ms,
            events: Some(Arc::<Inbox>::clone(&self.inbox)),
        }
    }

    /// Asks for work and returns the receiver of the answer.
    fn asks(&self, executors: &[&str], wait_ms: u64) -> oneshot::Receiver<Vec<GrantedLease>> {
        let (respond, answer) = respond();
        self.audit.lease(self.request(executors, wait_ms), respond);
        answer
    }

    async fn ask(&self, executors: &[&str], wait_ms: u64) -> Option<GrantedLease> {
        one(self.asks(executors, wait_ms)).await
    }

    /// Leases the next job of the executor `pulled`.
    pub(super) async fn lease(&self) -> GrantedLease {
        self.ask(&["pulled"], LONG_MS).await.expect("a job")
    }

    /// Sends a message about a lease that it holds.
    pub(super) async fn send(
        &self,
        of: &GrantedLease,
        message: LeaseMessage,
    ) -> Result<Standing, LeaseError> {
        self.send_with(of, Fence::Lease(of.lease), message).await
    }

    async fn send_with(
        &self,
        of: &GrantedLease,
        fence: Fence,
        message: LeaseMessage,
    ) -> Result<Standing, LeaseError> {
        let (respond, answer) = respond();
        self.audit.send(of.job, fence, message, respond);
        answered(answer).await
    }

    /// Sends a message that a correct worker does not send, without the audit.
    async fn insist(
        &self,
        job: JobId,
        fence: Fence,
        message: LeaseMessage,
    ) -> Result<Standing, LeaseError> {
        let (respond, answer) = respond();
        self.leases.send(job, fence, message, respond);
        answered(answer).await
    }

    /// Takes over the leases of an executor.
    async fn resume(&self, executor: &str) -> Vec<Resumed> {
        let (respond, answer) = respond();
        let executor = executor.parse().unwrap();
        self.audit
            .resume(executor, Arc::<Inbox>::clone(&self.inbox), respond);
        answered(answer).await.unwrap()
    }

    async fn look(&self, job: JobId) -> Result<Option<StoredJob>, LeaseError> {
        let (respond, answer) = respond();
        self.audit.read(job, respond);
        answered(answer).await
    }

    /// Finds the job of a run that has had this attempt.
    async fn find(&self, run: &str, attempt: u32) -> Result<Option<JobId>, LeaseError> {
        let (respond, answer) = respond();
        let wanted = JobQuery {
            executor: "pulled".parse().unwrap(),
            handler: pulled().handler,
            attribute: ("run".to_owned(), run.to_owned()),
            attempt,
        };
        self.audit.find(wanted, respond);
        answered(answer).await
    }

    /// Waits until it has received `expected`.
    async fn receives(&self, expected: Event) {
        let mut inbox = self.inbox.0.subscribe();
        let reached = timeout(PATIENCE, inbox.wait_for(|all| all.contains(&expected))).await;
        let all = self.inbox.0.borrow().clone();
        assert!(reached.is_ok(), "{expected:?} is not in {all:?}");
    }
}

impl Bench {
    /// Waits until the end of a lease is stored.
    async fn stores(&self, granted: &GrantedLease, end: Time) {
        let stored = async {
            loop {
                let lease = self.read(granted.job).await.lifecycle.lease;
                if lease.unwrap().expires_at == Some(end) {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, stored).await.expect("a stored renewal");
    }
}

/// Returns the attempt of an answer.
async fn one(answer: oneshot::Receiver<Vec<GrantedLease>>) -> Option<GrantedLease> {
    answered(answer).await.pop()
}

async fn answered<T>(answer: oneshot::Receiver<T>) -> T {
    timeout(PATIENCE, answer).await.expect("an answer").unwrap()
}

/// A job for the workers of an executor.
fn job_for(executor: &str) -> NewJob {
    NewJob {
        executor: Some(executor.parse().unwrap()),
        ..job("work")
    }
}

fn pulled() -> NewJob {
    job_for("pulled")
}

fn completed() -> LeaseMessage {
    ended(Outcome::Completed {
        result: Some(JsonText("[7]".to_owned())),
    })
}

fn ended(outcome: Outcome) -> LeaseMessage {
    let meter = Meter::default();
    LeaseMessage::Complete {
        outcome,
        meter,
        worker: None,
    }
}

const HEARTBEAT: LeaseMessage = LeaseMessage::Heartbeat {
    progress: None,
    wait_ms: 0,
};
