//! Dispatch: one loop that commits commands, leases jobs to cells and to foreign workers, and tells
//! what happened (`writer`); beside it the executor of foreign work (`foreign`), which needs no
//! store. Knows no wire, no HTTP and no configuration. This file is the handle to the loop.

pub mod assign_mail;
mod assignment;
pub mod events;
pub mod executors;
pub mod foreign;
pub mod lease_mail;
pub mod live;
pub mod logged;
pub mod numbers;
mod pulls;
pub mod readers;
pub mod waiters;
pub mod writer;

use std::sync::Arc;

use host_core::command::{Command, Reply};
use host_core::id::JobId;
use host_core::rejection::Rejection;
use host_store::{Reader, StoreError};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

use self::events::Events;
use self::live::Live;
use self::readers::Readers;
use self::waiters::{Waiter, Waiters};

/// How many requests may wait for the loop; more are refused as [`SubmitError::Busy`].
pub const REQUESTS_MAX: usize = 16_384;

/// One command and where its answer goes.
#[derive(Debug)]
pub struct Request {
    /// What to do.
    pub command: Command,
    /// Who is told, once it is on disk.
    pub reply: oneshot::Sender<Result<Reply, SubmitError>>,
}

/// Why a command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SubmitError {
    /// The rules refuse it.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// There is no room on the disk.
    #[error("the disk is full: nothing of this request was kept; free space and repeat it")]
    StoreFull,
    /// Too many requests wait already.
    #[error("{REQUESTS_MAX} requests wait already; repeat this one later")]
    Busy,
    /// The host stops, or its store is broken. Whether the command was kept is not known.
    #[error("the host is stopping; whether this was done is not known")]
    Stopping,
}

/// Gives commands to the dispatch loop. Cloning shares it.
#[derive(Clone)]
pub struct Dispatch {
    requests: mpsc::Sender<Request>,
    readers: Readers<Box<dyn Reader>>,
    shared: Arc<Shared>,
}

/// What the loop tells everybody.
#[derive(Default)]
pub struct Shared {
    /// Changes of state, for whoever listens.
    pub events: Events,
    /// Requests that wait for the end of a job.
    pub waiters: Waiters,
    /// What running jobs have said.
    pub live: Live,
}

impl Dispatch {
    /// Makes a handle to the loop that receives from the other end of `requests`.
    pub fn new(
        requests: mpsc::Sender<Request>,
        readers: Readers<Box<dyn Reader>>,
        shared: Arc<Shared>,
    ) -> Self {
        Self {
            requests,
            readers,
            shared,
        }
    }

    /// Gives the loop a command and returns its answer once that is on disk.
    ///
    /// Cancel safe in so far as a command that was taken is carried out, heard or not.
    pub async fn submit(&self, command: Command) -> Result<Reply, SubmitError> {
        let (reply, answer) = oneshot::channel();
        self.requests
            .try_send(Request { command, reply })
            .map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => SubmitError::Busy,
                mpsc::error::TrySendError::Closed(_) => SubmitError::Stopping,
            })?;
        answer.await.unwrap_or(Err(SubmitError::Stopping))
    }

    /// Asks the store on a thread that may wait for the disk.
    pub async fn read<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.readers.ask(move |reader| question(&**reader)).await
    }

    /// Registers for the end of a job: whoever then reads the job and finds it unended may wait.
    pub fn wait(&self, job: JobId) -> Waiter {
        self.shared.waiters.wait(job)
    }

    /// Returns what the loop tells everybody.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }
}

/// Cells in memory, as the tests of `host-cells` have them.
#[cfg(test)]
#[path = "../../cells/src/port/fake.rs"]
mod fake_cells;
