//! Dispatch: one loop that commits commands, leases jobs to cells and foreign workers, and
//! publishes events (`dispatch_loop`); beside it the executor of foreign work (`foreign`), which needs no
//! store. Knows no wire, no HTTP and no configuration. This file is the handle to the loop.

mod away;
pub mod costs;
mod discards;
pub mod dispatch_loop;
pub mod events;
mod flaws;
pub mod foreign;
pub mod labels;
pub mod lease_mail;
pub mod live;
pub mod logged;
pub mod nodes;
pub mod numbers;
pub mod readers;
mod requests;
mod span;
pub mod waiters;
mod workers;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use host_core::id::JobId;
use host_core::outcome::Progress;
use host_core::time::Time;
use host_engine::table::{Range, Record};
use host_engine::{Ask, Command, Listing, Reader, Rejection, Reply, StoreError};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

use self::away::{Away, GIVEN_UP};
use self::events::Events;
use self::flaws::FlawLog;
use self::live::Live;
use self::nodes::{DeploySync, Presence};
use self::readers::Readers;
use self::waiters::{Waiter, Waiters};

pub use self::workers::table::RENEWAL_MS_MAX;

/// The most requests that may wait for the loop. Later ones get [`SubmitError::Busy`].
pub const REQUESTS_MAX: usize = 16_384;

/// One command and where its answer goes.
#[derive(Debug)]
pub struct Request {
    pub command: Command,
    /// Gets the answer once it is on disk.
    pub reply: oneshot::Sender<Result<Reply, SubmitError>>,
    /// Who has taken the request first: the loop into a batch, or its sender back.
    pub taken: TakenFlag,
}

/// Whether a request was taken.
#[derive(Clone, Debug, Default)]
pub struct TakenFlag(Arc<AtomicBool>);

impl TakenFlag {
    /// Takes the request. Returns false if it was taken before.
    pub(crate) fn take(&self) -> bool {
        !self.0.swap(true, Ordering::Relaxed)
    }
}

/// Why a command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SubmitError {
    /// The rules refuse it.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// There is no room on the disk.
    #[error(
        "the disk is full: its last 64 MiB are kept so that accepted jobs can end, and 128 MiB must be \
         free for new ones; nothing of this request was kept; free space and repeat it"
    )]
    StoreFull,
    /// The file of the store is not where the host opened it.
    #[error(
        "the data directory was moved, removed or replaced while the host runs, and new jobs would be lost with it; \
         nothing of this request was kept; put it back, or stop the host"
    )]
    StoreMoved,
    /// The database does not answer.
    #[error(
        "the database does not answer; nothing of this request was kept; the host keeps trying to reconnect: \
         repeat the request later"
    )]
    StoreAway,
    /// The database went away while the command was being committed.
    #[error(
        "the connection to the database was lost during the commit, so it is unknown whether this took effect; \
         check once the database is back before you repeat it"
    )]
    OutcomeUnknown,
    /// Too many requests are waiting.
    #[error("{REQUESTS_MAX} requests are already waiting; repeat this one later")]
    Busy,
    /// The store cannot carry it out, even without other commands in the same batch.
    #[error("the store failed to carry this out and kept nothing of it: {0}")]
    Failed(String),
    /// The host is stopping, or its store is broken. The command may or may not be on disk.
    #[error("the host is stopping; whether this took effect is unknown")]
    Stopping,
}

/// Sends commands to the dispatch loop. Cloning shares it.
#[derive(Clone)]
pub struct Dispatch {
    requests: mpsc::Sender<Request>,
    readers: Readers<Box<dyn Reader>>,
    scanners: Readers<Box<dyn Reader>>,
    shared: Arc<Shared>,
}

/// What the loop publishes.
#[derive(Default)]
pub struct Shared {
    /// Changes of jobs' states and progress.
    pub events: Events,
    /// Requests that wait until a job ends.
    pub waiters: Waiters,
    /// The latest progress of running jobs.
    pub live: Live,
    /// Whether the disk has no room for new jobs.
    pub store_full: AtomicBool,
    /// Whether the file of the store is not where it was opened, so that new jobs are refused.
    pub store_moved: AtomicBool,
    /// What this host reports about itself, and what others ask of it.
    pub presence: Arc<Presence>,
    pub(crate) flaws: FlawLog,
    /// Whether the database does not answer.
    pub(crate) away: Away,
    /// Whether jobs run here.
    pub(crate) is_busy: AtomicBool,
    /// What may be deployed at other nodes alone.
    pub(crate) deploy_sync: DeploySync,
}

impl Shared {
    /// Returns whether the database does not answer, or accepts no writes. An idle host knows it from its heartbeats.
    pub fn is_store_away(&self) -> bool {
        self.away.is_away() || self.presence.is_unheard()
    }

    /// Makes what the loop publishes on a host that does not share its store.
    pub fn alone(presence: Arc<Presence>) -> Self {
        Self {
            presence,
            ..Self::default()
        }
    }

    /// Makes what the loop publishes on a node that shares its store with others.
    pub fn among_nodes(presence: Arc<Presence>) -> Self {
        Self {
            live: Live::among_nodes(),
            ..Self::alone(presence)
        }
    }

    /// Returns whether a request waits here for what other nodes do.
    pub(crate) fn is_awaited(&self) -> bool {
        self.waiters.any() || self.events.has_listeners() || self.is_busy.load(Ordering::Relaxed)
    }

    /// Publishes the progress of a running job.
    pub(crate) fn progressed(&self, now: Time, job: JobId, attempt: u32, progress: Progress) {
        self.live
            .record_progress(now, job, attempt, progress.clone());
        self.events.progressed(now, job, attempt, progress);
    }
}

impl Dispatch {
    /// Makes a handle to the loop that receives from the other end of `requests`.
    pub fn new(
        requests: mpsc::Sender<Request>,
        readers: Readers<Box<dyn Reader>>,
        scanners: Readers<Box<dyn Reader>>,
        shared: Arc<Shared>,
    ) -> Self {
        Self {
            requests,
            readers,
            scanners,
            shared,
        }
    }

    /// Sends the loop a command and returns its answer once that is on disk, or while the database is away. Cancel
    /// safe: if the call is cancelled, a command that was sent is still carried out.
    pub async fn submit<A: Ask>(&self, command: A) -> Result<A::Reply, SubmitError> {
        self.send(command.into()).await.map(Reply::unpack)
    }

    async fn send(&self, command: Command) -> Result<Reply, SubmitError> {
        let away = &self.shared.away;
        if away.is_away() {
            return Err(SubmitError::StoreAway);
        }
        let (reply, mut answer) = oneshot::channel();
        let taken = TakenFlag::default();
        let request = Request {
            command,
            reply,
            taken: taken.clone(),
        };
        self.requests
            .try_send(request)
            .map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => SubmitError::Busy,
                mpsc::error::TrySendError::Closed(_) => SubmitError::Stopping,
            })?;
        let answered = tokio::select! {
            biased;
            answered = &mut answer => answered,
            () = away.away() => {
                if taken.take() {
                    return Err(SubmitError::StoreAway);
                }
                // It is in a batch. If that was not sent, the loop says so now.
                match tokio::time::timeout(GIVEN_UP, answer).await {
                    Ok(answered) => answered,
                    Err(_) => return Err(SubmitError::OutcomeUnknown),
                }
            }
        };
        answered.unwrap_or(Err(SubmitError::Stopping))
    }

    /// Looks something up in the store, on a thread that may block. Cancel safe: the query is interrupted.
    pub async fn read<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.readers.ask(move |reader| question(&**reader)).await
    }

    /// Returns the records of a range. Those that this host cannot read are left out, and the log names them.
    pub async fn list<T: Record + Send + 'static>(
        &self,
        range: Range,
    ) -> Result<Listing<T>, StoreError> {
        let listing = self.read(|reader| reader.list_readable(range)).await?;
        for flaw in &listing.flaws {
            self.shared.flaws.report(&flaw.to_string());
        }
        Ok(listing)
    }

    /// Searches the store, as [`Dispatch::read`] does, for what no index leads to.
    pub async fn scan<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.scanners.ask(move |reader| question(&**reader)).await
    }

    /// Registers for the end of a job. Register first, then read the job, and wait only if it has
    /// not ended.
    pub fn wait(&self, job: JobId) -> Waiter {
        self.shared.waiters.wait(job)
    }

    /// Returns what the loop publishes.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }
}
