//! What can be asked of a store: filters, pages and what they show.

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::id::JobId;
use crate::job::{Cancel, Lifecycle, Payload, State};
use crate::json::JsonText;
use crate::lease::{Hold, Lease};
use crate::name::Name;
use crate::outcome::Progress;
use crate::time::Time;

/// The most items of a page.
pub const PAGE_ITEMS_MAX: u32 = 1_000;

/// Which jobs to list. All that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    /// In this state.
    pub state: Option<State>,
    /// In this queue.
    pub queue: Option<Name>,
    /// For this handler: of our cells, or of the named pool of foreign runners.
    pub handler: Option<(Option<Name>, Name)>,
}

/// Where a list goes on: the sequence number of the last job that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(pub u64);

/// A job as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSummary {
    /// What changes.
    pub lifecycle: Lifecycle,
    /// The wire it came by.
    pub wire: String,
}

/// One page of a list, newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The items; may be fewer than asked for although more follow, because a filter looks at a
    /// bounded number of jobs for one page.
    pub items: Vec<T>,
    /// Where the next page starts, `None` at the end.
    pub next: Option<Cursor>,
}

/// A job with everything that is kept of it but its attempts and logs.
#[derive(Clone, Debug, PartialEq)]
pub struct JobDetail {
    /// What changes.
    pub lifecycle: Lifecycle,
    /// What was written when it was accepted.
    pub payload: Payload,
    /// The key that makes it unique in its queue.
    pub unique_key: Option<String>,
    /// What it waits or waited for.
    pub depends_on: Vec<JobId>,
    /// What its handler returned, or the partial progress of a cancelled one.
    pub result: Option<JsonText>,
    /// Why its latest attempt did not complete.
    pub failure: Option<Failure>,
    /// The last progress of its latest ended attempt.
    pub progress: Option<Progress>,
}

/// One queue and how many jobs it has in each state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueStatus {
    /// Its name.
    pub name: Name,
    /// Whether claims skip it.
    pub paused: bool,
    /// The jobs in each state, in the order of [`crate::job::STATES`].
    pub counts: [u64; 8],
}

/// A running job whose lease is by TTL, so that it outlives the host that granted it: all that a
/// host needs to go on with it after a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteLease {
    /// The running job.
    pub job: JobId,
    /// The pool of foreign runners that has the handler; `None` for our own cells.
    pub runner: Option<Name>,
    /// The handler that is executed.
    pub handler: Name,
    /// The queue the job goes back to if the lease is lost.
    pub queue: Name,
    /// The number of the attempt.
    pub attempt: u32,
    /// The lease: its node, id, worker, end and acknowledgement window.
    pub lease: Lease,
    /// The request to stop the job, if the worker still has to stop.
    pub cancel: Option<Cancel>,
    /// After this instant no attempt may run.
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
