//! Queries of a store: filters, pages and results.

use serde::{Deserialize, Serialize};

use crate::command::Change;
use crate::failure::Failure;
use crate::id::JobId;
use crate::job::{Cancel, Lifecycle, Payload, State};
use crate::json::JsonText;
use crate::lease::{Hold, Lease};
use crate::name::Name;
use crate::outcome::Progress;
use crate::time::Time;

/// The most items in a page.
pub const PAGE_ITEMS_MAX: u32 = 1_000;

/// Which jobs to list. A job must match every filter that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    pub state: Option<State>,
    pub queue: Option<Name>,
    /// The handler, together with its pool of foreign runners (`None` for cells).
    pub handler: Option<(Option<Name>, Name)>,
}

/// Where a list continues: the sequence number of the last job that the previous page looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(pub u64);

/// A job as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSummary {
    pub lifecycle: Lifecycle,
    /// How long its attempts that have ended took together, in milliseconds.
    pub ran_ms: u64,
    /// The wire that the job came by.
    pub wire: String,
}

/// One page of a list, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The items. There may be fewer than requested although more follow, because one page looks at
    /// a bounded number of jobs.
    pub items: Vec<T>,
    /// Where the next page starts; `None` at the end.
    pub next: Option<Cursor>,
}

/// A change of state with its number and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberedChange {
    pub number: u64,
    pub at: Time,
    pub change: Change,
}

/// The changes after a number, as far as they are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// At most as many as asked for, in order.
    pub items: Vec<NumberedChange>,
    /// The number of the oldest change that is kept; that of the next one if none is.
    pub oldest: u64,
    /// The number that the next change will have.
    pub next: u64,
}

/// A job with everything that is stored of it except its attempts and logs.
#[derive(Clone, Debug, PartialEq)]
pub struct JobDetail {
    pub lifecycle: Lifecycle,
    /// How long its attempts that have ended took together, in milliseconds.
    pub ran_ms: u64,
    pub payload: Payload,
    /// The key that is unique in its queue.
    pub unique_key: Option<String>,
    /// The jobs that it depends on.
    pub depends_on: Vec<JobId>,
    /// The handler's result, or the partial result of a cancelled job.
    pub result: Option<JsonText>,
    /// Why the latest attempt did not complete.
    pub failure: Option<Failure>,
    /// The last progress of the latest attempt that has ended.
    pub progress: Option<Progress>,
}

/// One queue and how many jobs it has in each state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueStatus {
    pub name: Name,
    /// Whether claims skip it.
    pub paused: bool,
    /// The jobs in each state, in the order of [`crate::job::STATES`].
    pub counts: [u64; 8],
}

/// A running job with a lease by TTL, which outlives the host that granted it. This is all that a
/// host needs to continue after a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteLease {
    pub job: JobId,
    /// The pool of foreign runners that has the handler; `None` for cells.
    pub runner: Option<Name>,
    pub handler: Name,
    /// The queue that the job returns to if the lease is lost.
    pub queue: Name,
    pub attempt: u32,
    /// The lease: its node, id, worker, end and acknowledgement window.
    pub lease: Lease,
    /// The request to stop the job, if the worker still has to stop.
    pub cancel: Option<Cancel>,
    /// No attempt may run after this instant.
    pub deadline: Option<Time>,
}

impl RemoteLease {
    /// Returns the lease of a running job if it is by TTL.
    pub fn of(job: &Lifecycle) -> Option<Self> {
        let lease = job.lease.clone()?;
        matches!(lease.hold, Hold::Ttl { .. }).then(|| Self {
            job: job.id,
            runner: job.runner.clone(),
            handler: job.handler.clone(),
            queue: job.queue.clone(),
            attempt: job.attempt,
            lease,
            cancel: job.cancel.clone(),
            deadline: job.deadline,
        })
    }
}
