//! Queries of a store: filters, pages and results.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::access::{Glob, Scope};
use crate::failure::fingerprint::{fingerprint, pattern};
use crate::failure::{Failure, FailureKind};
use crate::id::{BatchId, JobId};
use crate::job::{Cancel, Lifecycle, Payload, State};
use crate::json::JsonText;
use crate::lease::{Hold, Lease};
use crate::name::{Name, address};
use crate::outcome::{Attempt, Progress};
use crate::time::Time;

/// The most items in a page.
pub const PAGE_ITEMS_MAX: u32 = 1_000;

/// The order of a list: that in which the jobs were enqueued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    #[default]
    Newest,
    Oldest,
}

/// Which jobs to list, and in which order. A job must match every filter that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    pub state: Option<State>,
    pub queue: Option<Name>,
    /// The handler, together with its executor (`None` for cells).
    pub handler: Option<(Option<Name>, Name)>,
    /// Matches the addresses of handlers.
    pub handlers: Option<Glob>,
    /// Enqueued at this instant or later.
    pub since: Option<Time>,
    /// Enqueued before this instant.
    pub until: Option<Time>,
    /// The start of the id: lower-case hex and dashes.
    pub id: Option<String>,
    /// Why it is discarded, or why its latest attempt did not complete.
    pub failure: Option<FailureKind>,
    /// The handler's own name of the error by which its latest attempt failed.
    pub user_kind: Option<String>,
    /// The wire that the job came in over.
    pub wire: Option<String>,
    pub unique_key: Option<String>,
    /// Attributes with their values.
    pub attributes: Vec<(String, String)>,
    /// Values in the params with their paths: keys joined by dots.
    pub params: Vec<(String, String)>,
    /// What must occur in names, attributes, params or the failure, in lower case.
    pub words: Vec<String>,
    /// The fingerprint of its failure.
    pub fingerprint: Option<String>,
    /// The batch that counts it.
    pub batch: Option<BatchId>,
    pub order: Order,
    /// What the requester may see.
    pub scope: Scope,
}

impl JobFilter {
    /// Returns whether a job's lifecycle matches.
    pub fn has(&self, job: &Lifecycle) -> bool {
        let of_handler = |(executor, handler): &(Option<Name>, Name)| {
            *handler == job.handler && *executor == job.executor
        };
        self.state.is_none_or(|state| state == job.state)
            && self.queue.as_ref().is_none_or(|queue| *queue == job.queue)
            && self.handler.as_ref().is_none_or(of_handler)
            && self.handlers.as_ref().is_none_or(|glob| {
                glob.has_handler(
                    job.executor.as_ref().map(Name::as_str),
                    job.handler.as_str(),
                )
            })
            && (self.batch.is_none() || self.batch == job.batch)
            && (self.scope.is_all() || self.scope.has(job.into()))
            && self.since.is_none_or(|since| job.enqueued_at >= since)
            && self.until.is_none_or(|until| job.enqueued_at < until)
            && self.failure.is_none_or(|kind| job.failure == Some(kind))
            && (!self.is_about_failures() || job.failure.is_some())
            && self
                .id
                .as_ref()
                .is_none_or(|start| job.id.to_string().starts_with(start))
    }

    /// Returns whether the rest of a job matches whose lifecycle does: its payload with its unique key, and its latest
    /// ended attempt. Each may be missing if it is not needed.
    pub fn has_rest(
        &self,
        job: &Lifecycle,
        payload: Option<(&Payload, Option<&str>)>,
        latest: Option<&Attempt>,
    ) -> bool {
        payload.is_none_or(|(payload, unique_key)| {
            self.has_payload(payload, unique_key)
                && self.has_words(job, payload, unique_key, latest)
        }) && (self.user_kind.is_none() || self.user_kind.as_deref() == user_kind(job, latest))
            && (self.fingerprint.is_none()
                || self.fingerprint == Cause::of(job, latest).map(|it| it.fingerprint))
    }

    fn has_payload(&self, payload: &Payload, unique_key: Option<&str>) -> bool {
        let has = |wanted: &(String, String)| payload.attributes.contains(wanted);
        self.wire.as_ref().is_none_or(|wire| *wire == payload.wire)
            && (self.unique_key.is_none() || self.unique_key.as_deref() == unique_key)
            && self.attributes.iter().all(has)
            && self.params.iter().all(|(path, value)| {
                let path: Vec<&str> = path.split('.').collect();
                payload.params.has(&path, value)
            })
    }

    fn has_words(
        &self,
        job: &Lifecycle,
        payload: &Payload,
        unique_key: Option<&str>,
        latest: Option<&Attempt>,
    ) -> bool {
        if self.words.is_empty() {
            return true;
        }
        let handler = address(job.executor.as_ref(), &job.handler);
        let failure = failure(job, latest);
        let names = [Some(&*handler), Some(job.queue.as_str()), unique_key];
        let of_failure = [
            failure.map(|it| it.message.as_str()),
            failure.and_then(|it| it.user_kind.as_deref()),
        ];
        let attributes = payload
            .attributes
            .iter()
            .flat_map(|(name, value)| [name.as_str(), value]);
        let short = names
            .into_iter()
            .chain(of_failure)
            .flatten()
            .chain(attributes);
        let params = std::iter::once_with(|| payload.params.unescaped());
        let mut texts = short.map(Cow::Borrowed).chain(params);
        let mut missing: Vec<&str> = self.words.iter().map(String::as_str).collect();
        texts.any(|text| {
            let text = text.to_lowercase();
            missing.retain(|word| !text.contains(word));
            missing.is_empty()
        })
    }

    /// Returns whether only jobs that failed can match.
    fn is_about_failures(&self) -> bool {
        self.user_kind.is_some() || self.fingerprint.is_some()
    }

    /// Returns whether the latest ended attempt of a job matters whose lifecycle matches.
    pub fn needs_attempt(&self, job: &Lifecycle) -> bool {
        job.failure.is_some() && (self.is_about_failures() || !self.words.is_empty())
    }

    /// Returns whether the payload of a job matters.
    pub fn needs_payload(&self) -> bool {
        self.wire.is_some()
            || self.unique_key.is_some()
            || !self.attributes.is_empty()
            || !self.params.is_empty()
            || !self.words.is_empty()
    }

    /// Returns whether the lifecycle of a job alone decides.
    pub fn is_of_lifecycles(&self) -> bool {
        !self.needs_payload() && !self.is_about_failures()
    }
}

/// How many jobs match a filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobCount {
    pub jobs: u64,
    /// Whether all jobs were examined. There may be more than counted if not.
    pub complete: bool,
    /// Where the count continues if there may be more.
    pub next: Option<Cursor>,
    /// When the first and the last of them were enqueued.
    pub oldest: Option<Time>,
    pub newest: Option<Time>,
}

impl JobCount {
    /// Counts one more job.
    pub fn add(&mut self, job: &Lifecycle) {
        let at = job.enqueued_at;
        self.jobs += 1;
        self.oldest = Some(self.oldest.map_or(at, |oldest| oldest.min(at)));
        self.newest = Some(self.newest.map_or(at, |newest| newest.max(at)));
    }
}

/// Where a list continues: the sequence number of the last job that the previous page looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(pub u64);

/// A job as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSummary {
    pub lifecycle: Lifecycle,
    /// How the latest attempt failed, without its message, details and stack.
    pub failure: Option<Failure>,
    /// Why its latest attempt did not complete.
    pub cause: Option<Cause>,
    /// The wire that the job came in over.
    pub wire: String,
}

/// What failures with the same cause have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// The same for all of them.
    pub fingerprint: String,
    /// Their message, without what differs from job to job.
    pub pattern: String,
}

impl Cause {
    /// Returns why a job failed, given its latest attempt that has ended.
    pub fn of(job: &Lifecycle, latest: Option<&Attempt>) -> Option<Self> {
        let kind = job.failure?;
        let known = failure(job, latest).cloned();
        let failure = known.unwrap_or_else(|| Failure::new(kind, ""));
        let handler = address(job.executor.as_ref(), &job.handler);
        Some(Self {
            fingerprint: fingerprint(&handler, &failure),
            pattern: pattern(&failure.message),
        })
    }
}

impl JobSummary {
    /// Sums up a job with its latest attempt that has ended.
    pub fn new(lifecycle: Lifecycle, latest: Option<&Attempt>, wire: String) -> Self {
        Self {
            failure: failure(&lifecycle, latest).map(Failure::brief),
            cause: Cause::of(&lifecycle, latest),
            lifecycle,
            wire,
        }
    }
}

/// Returns the handler's own name of the error by which the latest attempt failed, unless the job has
/// failed for another reason since.
fn user_kind<'a>(job: &Lifecycle, latest: Option<&'a Attempt>) -> Option<&'a str> {
    failure(job, latest)?.user_kind.as_deref()
}

/// Returns the failure of the latest attempt, unless the job has failed for another reason since.
fn failure<'a>(job: &Lifecycle, latest: Option<&'a Attempt>) -> Option<&'a Failure> {
    let failure = latest?.failure.as_ref()?;
    (Some(failure.kind) == job.failure).then_some(failure)
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The items. There may be fewer than requested although more follow, because one page looks at
    /// a bounded number of jobs.
    pub items: Vec<T>,
    /// Where the next page starts; `None` at the end.
    pub next: Option<Cursor>,
}

/// A job entered, changed or left its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub job: JobId,
    pub handler: Name,
    /// The executor that has the handler; `None` for cells.
    #[serde(rename = "runner")]
    pub executor: Option<Name>,
    pub queue: Name,
    /// The state before; `None` for a new job.
    pub from: Option<State>,
    /// The state after; `None` for a purged job.
    pub to: Option<State>,
    /// The number of the current or latest attempt.
    pub attempt: u32,
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
    /// The executor that has the handler; `None` for cells.
    pub executor: Option<Name>,
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
            executor: job.executor.clone(),
            handler: job.handler.clone(),
            queue: job.queue.clone(),
            attempt: job.attempt,
            lease,
            cancel: job.cancel.clone(),
            deadline: job.deadline,
        })
    }
}
