//! What can be asked of a store: filters, pages and what they show.

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::id::JobId;
use crate::job::{Lifecycle, Payload, State};
use crate::json::JsonText;
use crate::name::Name;
use crate::outcome::Progress;

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
