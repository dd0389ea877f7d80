//! What a client does in more than one operation: enqueue and wait, bulk, lists, events, repeats.
//!
#![doc = include_str!("../README.md")]

mod events;
mod patience;

use std::ops::Deref;
use std::time::Duration;
use std::{fmt, iter, mem};

use host_api::change::{CancelBody, RetryBody};
use host_api::client::{Choice, Unusable};
use host_api::depends_on::DependsOnBody;
use host_api::filter::FilterQuery;
use host_core::job::State;
use host_core::seconds::Seconds;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::to_raw_value;
use uuid::Uuid;

pub use host_api as api;
pub use host_api::client::{self, Error, Event};
pub use host_api::event::EventsQuery;
pub use host_api::job::JobView as Job;
pub use host_api::new_job::{
    AcceptedView as Accepted, BatchPlanBody, JobBatchBody, NewJobBody as NewJob, ScopeBody,
    UniqueBody,
};

pub use self::events::Events;
use self::patience::{Deadline, Patience};

/// How many jobs are in one array at most.
const ARRAY_JOBS_MAX: usize = 1_000;

/// The largest array, in bytes. A host takes twice as much.
const ARRAY_BYTES_MAX: usize = 4 << 20;

/// How long one request waits. A host allows more.
const WAIT_MAX: Duration = Duration::from_mins(1);

/// A client of one host, with what is more than one operation. It is also a [`client::Client`], which has the rest.
#[derive(Debug)]
pub struct Client {
    inner: client::Client,
    patience: Duration,
}

/// Why a job that was awaited has no result.
#[derive(Debug)]
pub enum WaitError {
    /// A request failed.
    Request(Error),
    /// It has ended and did not complete: it was discarded or cancelled.
    Ended(Box<Job>),
    /// It has completed, but this token may not see its result. That needs the verb `read_payload`, or `read_own` for jobs
    /// that it enqueues itself.
    Withheld(Box<Job>),
    /// It has not ended in time, and continues.
    TimedOut(Box<Job>),
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(error) => error.fmt(f),
            Self::Ended(job) => {
                write!(f, "job {} was {}", job.id, job.state)?;
                match &job.failure {
                    Some(failure) if failure.message.is_empty() => write!(f, ": {}", failure.kind),
                    Some(failure) => write!(f, ": {}: {}", failure.kind, failure.message),
                    None => Ok(()),
                }
            }
            Self::Withheld(job) => write!(
                f,
                "job {} has completed, but its result is withheld from this token, which needs the verb read_payload, or \
                 read_own for jobs that it enqueues itself",
                job.id
            ),
            Self::TimedOut(job) => write!(f, "job {} is still {}; it continues", job.id, job.state),
        }
    }
}

impl std::error::Error for WaitError {}

impl From<Error> for WaitError {
    fn from(error: Error) -> Self {
        Self::Request(error)
    }
}

impl From<client::Client> for Client {
    fn from(inner: client::Client) -> Self {
        let patience = Duration::from_secs(30);
        Self { inner, patience }
    }
}

impl Deref for Client {
    type Target = client::Client;

    fn deref(&self) -> &client::Client {
        &self.inner
    }
}

impl Client {
    /// Makes a client of the host that the command line would use: that of the environment, or of the context.
    pub fn from_env() -> Result<Self, Unusable> {
        Choice::from_env().open().map(Self::from)
    }

    /// Repeats requests for so long while the host does not answer or says that it is busy: 30 seconds otherwise.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Enqueues a job. It is one job even if an answer is lost on the way: for that, a job without a unique key gets
    /// a random one of scope `retained`. With a key of another scope, a request is not repeated after it may have been
    /// carried out.
    pub fn enqueue(&self, job: NewJob) -> Result<Accepted, Error> {
        let job = keyed(job);
        let repeatable = is_repeatable(&job);
        self.patiently(repeatable, || Ok(self.inner.enqueue(&job)?.view))
    }

    /// Enqueues a job, waits for its end, at most for `timeout`, and returns its result.
    pub fn enqueue_and_wait<T: DeserializeOwned>(
        &self,
        job: NewJob,
        timeout: Option<Duration>,
    ) -> Result<T, WaitError> {
        let accepted = self.enqueue(job)?;
        self.result(&accepted.id, timeout)
    }

    /// Enqueues up to 1,000 jobs, all or none; `#0` in `depends_on` is the first of them.
    pub fn enqueue_array(
        &self,
        jobs: impl IntoIterator<Item = NewJob>,
    ) -> Result<Vec<Accepted>, Error> {
        let jobs: Vec<NewJob> = jobs.into_iter().map(keyed).collect();
        let repeatable = jobs.iter().all(is_repeatable);
        self.patiently(repeatable, || {
            Ok(self.inner.post(api::path::JOBS, &jobs)?.view)
        })
    }

    /// Enqueues any number of jobs, array by array, and returns how many there were. `accepted` gets the answers to
    /// each array, in the order of the jobs.
    pub fn enqueue_many(
        &self,
        jobs: impl IntoIterator<Item = NewJob>,
        mut accepted: impl FnMut(Vec<Accepted>),
    ) -> Result<u64, Error> {
        let (mut total, mut bytes, mut array) = (0, 0, Vec::new());
        for job in jobs {
            let named = job.depends_on.iter().map(DependsOnBody::job);
            let batch = job.batch.as_ref().and_then(JobBatchBody::id);
            if named.chain(batch).any(|it| it.starts_with('#')) {
                let cause =
                    "jobs of different requests cannot name each other: use enqueue_array for `#n`";
                return Err(Error::Invalid(cause.to_owned()));
            }
            let job = keyed(job);
            let written = serde_json::to_vec(&job).map_err(Error::Unreadable)?;
            let is_full = array.len() == ARRAY_JOBS_MAX || bytes + written.len() > ARRAY_BYTES_MAX;
            if is_full && !array.is_empty() {
                accepted(self.enqueue_array(mem::take(&mut array))?);
                bytes = 0;
            }
            bytes += written.len() + 1;
            array.push(job);
            total += 1;
        }
        if !array.is_empty() {
            accepted(self.enqueue_array(array)?);
        }
        Ok(total)
    }

    /// Waits until a job has ended, and returns it, however it ended. A restart of the host does not matter.
    pub fn wait(&self, id: &str, timeout: Option<Duration>) -> Result<Job, WaitError> {
        let deadline = Deadline::after(timeout);
        loop {
            let asked = deadline.left().min(WAIT_MAX);
            let slice = Deadline::after(Some(asked));
            let ms = u64::try_from(asked.as_millis()).unwrap_or_default();
            let wait = || Ok(self.inner.wait_for_job(id, Seconds { ms })?.view);
            let job: Job = self.patiently(true, wait)?;
            if has_ended(&job) {
                return Ok(job);
            }
            if deadline.left().is_zero() {
                return Err(WaitError::TimedOut(Box::new(job)));
            }
            // A host that stops answers early.
            patience::pause(slice.left().min(Duration::from_millis(200)));
        }
    }

    /// Waits until a job has ended, and returns its result.
    pub fn result<T: DeserializeOwned>(
        &self,
        id: &str,
        timeout: Option<Duration>,
    ) -> Result<T, WaitError> {
        let job = self.wait(id, timeout)?;
        if job.state != "completed" {
            return Err(WaitError::Ended(Box::new(job)));
        }
        if job.withheld.iter().any(|part| part == "result") {
            return Err(WaitError::Withheld(Box::new(job)));
        }
        let result = job.result.as_ref().map_or("null", |result| result.get());
        Ok(serde_json::from_str(result).map_err(Error::Unreadable)?)
    }

    /// Lists the jobs that match, page by page, the newest first.
    pub fn all_jobs(&self, mut filter: FilterQuery) -> impl Iterator<Item = Result<Job, Error>> {
        let mut page = Vec::new().into_iter();
        let mut is_last = false;
        iter::from_fn(move || {
            loop {
                if let Some(item) = page.next() {
                    let item: client::Item<Job> = item;
                    return Some(Ok(item.view));
                }
                if mem::replace(&mut is_last, true) {
                    return None;
                }
                let next = match self.patiently(true, || self.inner.jobs(&filter)) {
                    Ok(answer) => answer.view,
                    Err(error) => return Some(Err(error)),
                };
                is_last = next.next_cursor.is_none();
                filter.cursor = next.next_cursor;
                page = next.items.into_iter();
            }
        })
    }

    /// Cancels a job; its handler has the usual time to stop by itself.
    pub fn cancel(&self, id: &str, reason: &str) -> Result<(), Error> {
        let body = CancelBody {
            reason: Some(reason.to_owned()),
            grace_seconds: None,
        };
        self.patiently(false, || self.inner.cancel_job(id, &body).map(drop))
    }

    /// Runs a job that was discarded or cancelled again.
    pub fn retry(&self, id: &str) -> Result<Job, Error> {
        let retry = || Ok(self.inner.retry_job(id, &RetryBody::default())?.view);
        self.patiently(false, retry)
    }

    /// Returns what happens from now on, or after the event with an id. When the connection breaks, it continues where
    /// it was. The stream of one job ends with the job.
    pub fn events(&self, query: EventsQuery, after: Option<u64>) -> Result<Events<'_>, Error> {
        Events::open(self, query, after)
    }

    /// Makes a request, again as long as that is safe and patience lasts.
    fn patiently<T>(
        &self,
        repeatable: bool,
        mut once: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut patience = Patience::new(self.patience);
        loop {
            match once() {
                Err(error) if patience.pause_after(&error, repeatable) => {}
                answered => return answered,
            }
        }
    }
}

/// Makes a job for a handler.
pub fn job(handler: &str, params: &impl Serialize) -> Result<NewJob, serde_json::Error> {
    Ok(NewJob {
        handler: handler.to_owned(),
        params: Some(to_raw_value(params)?),
        ..NewJob::default()
    })
}

/// Gives a job a key with which the host accepts it once, unless it has a key.
#[expect(
    clippy::disallowed_methods,
    reason = "a program of its own has ids of its own"
)]
fn keyed(mut job: NewJob) -> NewJob {
    if job.unique.is_none() && job.unique_key.is_none() {
        job.unique = Some(UniqueBody {
            scope: ScopeBody::Retained,
            ..UniqueBody::active(format!("client-{}", Uuid::new_v4()))
        });
    }
    job
}

fn has_ended(job: &Job) -> bool {
    State::from_name(&job.state).is_some_and(State::is_terminal)
}

fn is_repeatable(job: &NewJob) -> bool {
    let unique = job.unique.as_ref();
    unique.is_some_and(|unique| matches!(unique.scope, ScopeBody::Retained))
}
