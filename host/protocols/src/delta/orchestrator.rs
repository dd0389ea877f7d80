//! The orchestrator's side of leases: passes what runners send on to the host, message by message for
//! each lease, and turns its answers into those of the wire. Knows no HTTP.

mod ends;
mod leasing;
mod messages;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use host_core::id::{JobId, LeaseId};
use host_core::lease::Fence;
use host_core::name::Name;
use host_core::port::lease::{LeaseError, LeaseEvents, LeaseMessage, Leases, Standing};
use host_core::port::{Clock, Counters};
use host_core::rejection::Rejection;
use host_core::time::Time;
use host_runtime::mailbox::respond;
use tokio::sync::{Mutex as AsyncMutex, watch};

use super::NAME;
use super::book::Book;
use super::lease_id::LeaseText;
use super::read::About;
use super::refusal::{Code, Refused, Stale};
use super::section::{DeltaConfig, PoolConfig};
use super::tags::{self, Lanes};
use crate::wire::JobLogs;

/// How many leases are locked apart from each other.
const LOCKS: usize = 256;

/// The parts of the host that leases need, once it runs.
pub(super) struct Host {
    pub(super) leases: Arc<dyn Leases>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) counters: Arc<dyn Counters>,
}

/// The orchestrator of all pools.
pub(super) struct Orchestrator {
    pub(super) config: DeltaConfig,
    host: OnceLock<Host>,
    logs: OnceLock<Arc<dyn JobLogs>>,
    book: Mutex<Book>,
    /// The lanes that jobs have named; requests that wait hear of new ones.
    lanes: watch::Sender<Lanes>,
    /// Messages about one lease go one after the other.
    locks: Box<[AsyncMutex<()>]>,
}

impl std::fmt::Debug for Orchestrator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Orchestrator")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// The lease that a message names, and who sends it.
#[derive(Clone, Debug)]
struct Named {
    job: JobId,
    lease: LeaseId,
    text: LeaseText,
    worker: String,
}

impl Orchestrator {
    pub(super) fn new(config: DeltaConfig) -> Arc<Self> {
        Arc::new(Self {
            config,
            host: OnceLock::new(),
            logs: OnceLock::new(),
            book: Mutex::default(),
            lanes: watch::Sender::default(),
            locks: (0..LOCKS).map(|_| AsyncMutex::default()).collect(),
        })
    }

    /// Connects it with the host. Messages that come before are told to come again.
    pub(super) fn connect(&self, host: Host) {
        let _connected_before = self.host.set(host).is_err();
    }

    /// Says where logs are kept.
    pub(super) fn keep_logs(&self, logs: Arc<dyn JobLogs>) {
        let _set_before = self.logs.set(logs).is_err();
    }

    fn host(&self) -> Result<&Host, Refused> {
        let starting = || Refused::new(Code::Busy, "the host is starting; repeat this");
        self.host.get().ok_or_else(starting)
    }

    /// Counts a refusal.
    pub(super) fn count(&self, code: Code) {
        if let Some(host) = self.host.get() {
            host.counters.refused(NAME, code.as_str());
        }
    }

    pub(super) fn pool(&self, name: &str) -> Option<&PoolConfig> {
        self.config
            .pools
            .iter()
            .find(|pool| pool.name.as_str() == name)
    }

    /// Finds the executor of this name: a pool, or a lane of one.
    pub(super) fn find_lane(&self, name: &Name) -> crate::wire::executors::Found {
        use crate::wire::executors::Found;
        let Some((pool, wanted)) = tags::parts(name) else {
            return Found::Nobody;
        };
        if self.pool(pool.as_str()).is_none() {
            return Found::Nobody;
        }
        if wanted.is_empty() || self.lanes.borrow().has(name) {
            return Found::Here;
        }
        let mut added = None;
        self.lanes.send_if_modified(|lanes| {
            added = lanes.add(name, wanted);
            added == Some(true)
        });
        match added {
            Some(_) => Found::Here,
            None => Found::Full(tags::LANES_MAX),
        }
    }

    /// Returns the workers of a pool, and how many leases each holds.
    pub(super) fn workers(&self, pool: &Name) -> std::collections::BTreeMap<String, usize> {
        let now = self.host.get().map_or(Time(0), |host| host.clock.now());
        self.book().workers(now, pool.as_str())
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self, lease: LeaseId) -> &AsyncMutex<()> {
        let number = lease.0.as_u128() % LOCKS as u128;
        &self.locks[usize::try_from(number).unwrap_or_default()]
    }

    /// Passes a message on. The caller holds the lock of its lease.
    async fn tell(&self, named: &Named, message: LeaseMessage) -> Result<Standing, Refused> {
        if let Some(why) = self.book().over(named.lease, &named.worker) {
            return Err(Refused::stale(why));
        }
        let (respond, answer) = respond();
        let fence = Fence::Holder(named.lease, named.worker.clone());
        self.host()?.leases.tell(named.job, fence, message, respond);
        let answer = answer.await.unwrap_or(Err(LeaseError::Stopping));
        answer.map_err(|error| self.refuse(named, &error))
    }

    /// Turns the host's refusal into one of the wire.
    fn refuse(&self, named: &Named, error: &LeaseError) -> Refused {
        let rejection = match error {
            LeaseError::Rejected(rejection) => rejection,
            LeaseError::Busy | LeaseError::Stopping => {
                return Refused::new(Code::Busy, error.to_string());
            }
            LeaseError::StoreFull => return Refused::new(Code::StoreFull, error.to_string()),
        };
        match rejection {
            Rejection::NotAcknowledged => Refused::new(
                Code::State,
                "the lease is not acknowledged: send AckLease first",
            ),
            Rejection::CancelNotRequested => {
                Refused::new(Code::State, "no cancel is requested: send Complete")
            }
            Rejection::Stale
            | Rejection::LeaseExpired
            | Rejection::UnknownJob(_)
            | Rejection::Terminal(_)
            | Rejection::WrongState(_)
            | Rejection::Foreign
            | Rejection::UniqueKeyTaken(_)
            | Rejection::PrerequisiteGone(_)
            | Rejection::UnknownPrerequisite(_)
            | Rejection::TooManyDependents { .. }
            | Rejection::UnknownQueue(_)
            | Rejection::UnknownComponent(_)
            | Rejection::UnknownRevision { .. }
            | Rejection::HandlerOwned { .. }
            | Rejection::ComponentInUse { .. } => self.stale(named),
        }
    }

    fn stale(&self, named: &Named) -> Refused {
        let mut book = self.book();
        if let Some(known) = book.is_held_by_another(named.lease, &named.worker) {
            tracing::warn!(
                event = "lease_theft_suspected",
                job = %named.job,
                lease = ?named.text,
                holder = known.worker,
                sender = named.worker,
                "a runner names the lease of another one",
            );
            drop(book);
            self.count(Code::LeaseTheft);
            return Refused::stale(Stale::Unknown);
        }
        Refused::stale(book.stale(named.lease, &named.worker))
    }
}

impl LeaseEvents for Orchestrator {
    fn cancelled(&self, _: JobId, lease: LeaseId, _: u64) {
        self.book().cancelled(lease);
    }

    fn revoked(&self, _: JobId, lease: LeaseId) {
        self.book().revoked(lease);
    }
}

impl Named {
    /// Finds out which lease a message is about.
    fn read(pool: &PoolConfig, about: &About) -> Result<Self, Refused> {
        let Some((job, lease)) = about.lease_id.parse() else {
            return Err(Refused::stale(Stale::Unknown));
        };
        Ok(Self {
            job,
            lease,
            text: about.lease_id.clone(),
            worker: worker(pool, &about.runner_id),
        })
    }
}

/// Returns the name of a runner in attempts.
fn worker(pool: &PoolConfig, runner_id: &str) -> String {
    format!("{}/{runner_id}", pool.name)
}
