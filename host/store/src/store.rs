//! The trait that every backend implements. Synchronous and batch-first: the owner of a store calls
//! it from a thread of its own and releases replies after `commit` returns.

#![warn(missing_docs)]

use host_core::command::{Command, Committed};
use host_core::handler::{Digest, Revision};
use host_core::id::JobId;
use host_core::job::State;
use host_core::name::Name;
use host_core::outcome::Attempt;
use host_core::query::{Cursor, JobDetail, JobFilter, JobSummary, Page, QueueStatus, RemoteLease};
use host_core::time::Time;

use crate::error::StoreError;

/// The one writer.
pub trait Store: Send {
    /// Applies a batch at `now` in its order and returns when all of it is on disk.
    ///
    /// On an error nothing of the batch was kept; after [`StoreError::Broken`] the store refuses
    /// every later batch. After [`StoreError::Full`] a batch without `Enqueue` and `Deploy` may be
    /// committed again: what was accepted goes on in room kept for it, as long as that lasts.
    fn commit(&mut self, now: Time, batch: Vec<Command>) -> Result<Committed, StoreError>;

    /// Opens a reader that sees every batch committed before each of its calls.
    fn reader(&self) -> Result<Box<dyn Reader>, StoreError>;
}

/// Questions about what is committed. Readers never block the writer.
pub trait Reader: Send {
    /// Returns one job.
    fn job(&self, id: JobId) -> Result<Option<JobDetail>, StoreError>;

    /// Returns the ids that start with `prefix` (lower-case hex and dashes), at most `limit`.
    fn job_ids(&self, prefix: &str, limit: u32) -> Result<Vec<JobId>, StoreError>;

    /// Returns the state of one job.
    fn state(&self, id: JobId) -> Result<Option<State>, StoreError>;

    /// Returns a page of at most `limit` jobs, newest first.
    fn jobs(
        &self,
        filter: &JobFilter,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<JobSummary>, StoreError>;

    /// Returns the ended attempts of one job, first to last.
    fn attempts(&self, id: JobId) -> Result<Vec<Attempt>, StoreError>;

    /// Returns all queues that have or had jobs or are paused, by name.
    fn queues(&self) -> Result<Vec<QueueStatus>, StoreError>;

    /// Returns the pools of foreign runners for which jobs are available, by name.
    fn runners_awaited(&self) -> Result<Vec<Name>, StoreError>;

    /// Returns the leases by TTL of all running jobs, of all nodes, in the order in which the jobs
    /// were enqueued. A lease stays until a tick takes it away, even if its time is over.
    ///
    /// It reads every running job: a host asks once, when it starts.
    fn remote_leases(&self) -> Result<Vec<RemoteLease>, StoreError>;

    /// Returns the current revision of every component, by name.
    fn components(&self) -> Result<Vec<Revision>, StoreError>;

    /// Returns all revisions of one component, newest first, and which one is current.
    fn revisions(&self, component: &Name) -> Result<(Vec<Revision>, u32), StoreError>;

    /// Returns the bytes of a component.
    fn component_bytes(&self, digest: Digest) -> Result<Option<Vec<u8>>, StoreError>;
}
