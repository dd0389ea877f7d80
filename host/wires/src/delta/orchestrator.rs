//! The orchestrator's side of leases: passes what runners send on to the host, message by message for
//! each lease, and turns its answers into those of the wire. Knows no HTTP.

mod ends;
mod leasing;
mod messages;
mod overrun;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use host_core::id::{JobId, LeaseId};
use host_core::lease::Fence;
use host_core::name::Name;
use host_core::port::lease::{LeaseError, LeaseEvents, LeaseMessage, Leases, Standing};
use host_core::port::{Clock, Counters};
use host_core::rejection::Rejection;
use host_core::time::Time;
use host_runtime::mailbox::respond;
use tokio::sync::{Mutex as AsyncMutex, Notify, watch};

use super::NAME;
use super::book::{Book, Over};
use super::lease_id::LeaseText;
use super::read::About;
use super::refusals::{Code, Refused, Stale};
use super::section::{DeltaConfig, PoolConfig};
use super::slots::Slots;
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
    /// The runners that this host starts.
    pub(super) slots: Slots,
    /// Where runners reach this host, once it listens.
    listen: watch::Sender<Option<SocketAddr>>,
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
            slots: Slots::new(&config.pools),
            config,
            listen: watch::Sender::default(),
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

    /// Says where runners reach this host.
    pub(super) fn listens(&self, listen: SocketAddr) {
        self.listen.send_replace(Some(listen));
    }

    /// Waits until this host listens for runners. Cancel safe.
    pub(super) async fn listening(&self) -> Option<SocketAddr> {
        let mut listen = self.listen.subscribe();
        let known = listen.wait_for(Option::is_some).await;
        known.map_or(None, |known| *known)
    }

    /// Returns the executors of a pool whose jobs a runner with these tags can execute.
    pub(super) fn lanes_of(&self, pool: &PoolConfig, offered: &BTreeSet<String>) -> Vec<Name> {
        self.lanes.borrow().of(&pool.name, offered)
    }

    pub(super) fn logs(&self) -> Option<&Arc<dyn JobLogs>> {
        self.logs.get()
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

    /// Returns the pool of a lease that was handed out in a file: its runner needs no token.
    pub(super) fn handed_out(&self, lease: &LeaseText) -> Option<&PoolConfig> {
        let (_, lease) = lease.parse()?;
        let book = self.book();
        let (pool, _) = book.handed_out(lease)?.split_once('/')?;
        self.pool(pool)
    }

    /// Notes that a lease was written to a file.
    pub(super) fn hand_out(&self, lease: LeaseId) {
        self.book().hand_out(lease);
    }

    /// Returns whether a lease was acknowledged.
    pub(super) fn is_acked(&self, lease: LeaseId) -> bool {
        self.book().is_acked(lease)
    }

    /// Waits until a lease of this worker has ended, and says how. Cancel safe.
    pub(super) async fn ended(&self, lease: LeaseId, worker: &str) -> Over {
        loop {
            let changed = self.changed(lease, worker);
            let mut changed = std::pin::pin!(changed.notified());
            // From here on no end is missed.
            changed.as_mut().enable();
            if let Some(over) = self.book().end_of(lease, worker) {
                return over;
            }
            changed.await;
        }
    }

    /// Returns what wakes those that wait for a change of a lease.
    fn changed(&self, lease: LeaseId, worker: &str) -> Arc<Notify> {
        let mut book = self.book();
        let known = book.live(lease, worker);
        known
            .map(|known| Arc::clone(&known.changed))
            .unwrap_or_default()
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
        self.host()?.leases.send(named.job, fence, message, respond);
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
            | Rejection::DependencyCycle(_)
            | Rejection::TooManyDependents { .. }
            | Rejection::TooManyQueues { .. }
            | Rejection::TooManyWaiting { .. }
            | Rejection::TooManyComponents { .. }
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
pub(super) fn worker(pool: &PoolConfig, runner_id: &str) -> String {
    format!("{}/{runner_id}", pool.name)
}
