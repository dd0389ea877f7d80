//! The attempts that workers have or are to get: what the session knows of them beside their leases. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use host_core::id::{JobId, LeaseId};
use host_core::name::Name;
use host_core::port::{Assignment, Tag};
use host_core::time::Time;
use host_runtime::backoff::Backoff;
use host_wire_kit::session::Link;

use super::read::{Claims, Report};
use crate::task_id::TaskId;
use crate::token::Scope;

/// One leased attempt.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) lease: LeaseId,
    /// The executor whose worker has it.
    pub(super) executor: Option<Name>,
    pub(super) scope: Scope,
    /// The key of the task.
    pub(super) key: String,
    pub(super) granted_at: Time,
    /// When its time is over and it must stop.
    pub(super) due: Time,
    /// Whether it has a slot of its worker: not if another node has granted it.
    pub(super) has_slot: bool,
    /// Whether its worker has begun, as far as this node knows.
    pub(super) is_begun: bool,
    /// Whether the host knows that its worker has received the cancel.
    pub(super) is_warned: bool,
    /// `None` once its worker has it, or if no worker is to have it any more.
    pub(super) delivery: Option<Delivery>,
    /// The dispatch that its worker has not answered.
    pub(super) request: Option<Tag>,
}

/// An attempt on its way to its worker.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) assignment: Arc<Assignment>,
    /// When the worker must have begun.
    pub(super) begin_by: Time,
    /// Whether the worker may have received it.
    pub(super) may_run: bool,
    pub(super) backoff: Backoff,
    /// When the answer to the dispatch is late, or the dispatch is repeated.
    pub(super) at: Time,
    /// Whether the time to begin is over then.
    pub(super) is_last: bool,
}

/// A callback that its token allows.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) link: Link,
    pub(super) scope: Scope,
    pub(super) attempt_id: Option<String>,
    pub(super) claims: Claims,
    pub(super) report: Report,
}

impl Attempt {
    pub(super) fn new(
        lease: LeaseId,
        executor: Option<Name>,
        scope: Scope,
        key: String,
        granted_at: Time,
        due: Time,
    ) -> Self {
        Self {
            lease,
            executor,
            scope,
            key,
            granted_at,
            due,
            has_slot: false,
            is_begun: false,
            is_warned: false,
            delivery: None,
            request: None,
        }
    }

    /// Returns for how long its time has been over.
    pub(super) fn overdue_ms(&self, now: Time) -> Option<u64> {
        (now >= self.due).then(|| now.since_ms(self.due))
    }
}

/// Returns whether a token is about the task of a path, as the task is known here.
pub(super) fn is_about(scope: &Scope, task: Option<&TaskId>, known: &Scope, key: &str) -> bool {
    let is_task = match task {
        Some(TaskId::Job(job)) => *job == scope.job,
        Some(TaskId::OfRun { run, key: of_path }) => *run == known.run && of_path == key,
        None => false,
    };
    // The attempt is checked later: an earlier one has an answer of its own.
    is_task
        && scope.job == known.job
        && scope.tenant == known.tenant
        && scope.workspace == known.workspace
        && scope.run == known.run
}

/// All attempts, one for each job.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    all: BTreeMap<JobId, Attempt>,
}

impl Attempts {
    pub(super) fn get(&mut self, job: JobId) -> Option<&mut Attempt> {
        self.all.get_mut(&job)
    }

    /// Returns the attempt of a job if it has this number.
    pub(super) fn numbered(&mut self, job: JobId, number: u32) -> Option<&mut Attempt> {
        self.get(job)
            .filter(|attempt| attempt.scope.attempt == number)
    }

    /// Returns the attempt of a job if it has this lease.
    pub(super) fn with_lease(&mut self, job: JobId, lease: LeaseId) -> Option<&mut Attempt> {
        self.get(job).filter(|attempt| attempt.lease == lease)
    }

    pub(super) fn insert(&mut self, attempt: Attempt) {
        self.all.insert(attempt.scope.job, attempt);
    }

    pub(super) fn remove(&mut self, job: JobId, lease: LeaseId) -> Option<Attempt> {
        self.with_lease(job, lease)?;
        self.all.remove(&job)
    }

    pub(super) fn jobs(&self) -> Vec<JobId> {
        self.all.keys().copied().collect()
    }

    /// Returns whether one of the executor's attempts is still being delivered.
    pub(super) fn is_delivering(&self, executor: &Name) -> bool {
        let mut all = self.all.values();
        all.any(|it| it.delivery.is_some() && it.executor.as_ref() == Some(executor))
    }
}
