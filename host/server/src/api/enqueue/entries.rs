//! The entries of a request: read once, and then accepted in order.

use std::vec::IntoIter;

use host_api::new_job::{JobBatchBody, NewJobBody};
use host_api::webhook::NotifyBody;
use host_cells::compile::schema::Budget;
use host_core::access::Scope;
use host_core::graph::find_cycle;
use host_core::id::{BatchId, JobId};
use host_core::job::{BatchStart, DEPENDENCIES_MAX, Membership, NewJob, Origin};
use host_core::name::Name;
use host_core::notify::{JOB_EVENTS, Notify};
use host_engine::Rejection;
use host_engine::job::JobRefusal;
use host_http::json::{self, AtMost, Object};
use host_runtime::ids;

use super::params::Entry;
use super::{batch, entry, prerequisites, route};
use crate::api::Api;
use crate::api::error::ApiError;
use crate::api::problem::kinds;
use crate::webhooks;

/// The most jobs of one array.
const JOBS_MAX: usize = 1_000;

/// The scope of an unknown caller.
static EVERYTHING: Scope = Scope::ALL;

#[derive(Debug)]
pub(super) struct Entries {
    /// The entry that is checked now: it is checked again if that cannot be done immediately.
    current: Option<Entry>,
    rest: IntoIter<NewJobBody>,
    /// The ids of all jobs.
    ids: Vec<JobId>,
    jobs: Vec<NewJob>,
    is_array: bool,
    /// On whose behalf they are enqueued.
    origin: Option<Box<Origin>>,
}

impl Entries {
    /// Reads a body, and checks that its jobs may be enqueued and do not wait for each other.
    pub(super) fn read(
        api: &Api,
        origin: Option<Box<Origin>>,
        text: &[u8],
        is_array: bool,
        may: impl Fn(&NewJobBody) -> Result<(), ApiError>,
    ) -> Result<Self, ApiError> {
        let bodies: Vec<NewJobBody> = if is_array {
            let array: AtMost<JOBS_MAX, Object<NewJobBody>> = json::read(text)?;
            if array.more {
                let detail = format!("the array has more than {JOBS_MAX} jobs");
                return Err(ApiError::new(&kinds::TOO_MANY_JOBS, detail));
            }
            array
                .elements
                .into_iter()
                .map(|Object(body)| body)
                .collect()
        } else {
            vec![json::read_object(text)?]
        };
        if bodies.is_empty() {
            let detail = "the array has no jobs";
            return Err(ApiError::invalid(detail));
        }
        for (n, body) in bodies.iter().enumerate() {
            may(body).map_err(|error| at(is_array, n, error))?;
        }
        let dependencies: usize = bodies.iter().map(|body| body.depends_on.len()).sum();
        if dependencies > DEPENDENCIES_MAX {
            let detail = format!(
                "depends_on: all jobs of a request may name at most {DEPENDENCIES_MAX} jobs together, \
                 got {dependencies}"
            );
            return Err(ApiError::new(&kinds::TOO_MANY_DEPENDENCIES, detail));
        }
        let references =
            |(n, body)| references(body, bodies.len()).map_err(|error| at(is_array, n, error));
        let graph = bodies.iter().enumerate().map(references);
        if let Some(cycle) = find_cycle(&graph.collect::<Result<Vec<_>, _>>()?) {
            return Err(Rejection::Job(JobRefusal::DependencyCycle(cycle)).into());
        }
        for (n, body) in bodies.iter().enumerate() {
            check_batch(body, &bodies).map_err(|error| at(is_array, n, error))?;
        }
        let now = api.clock.now();
        Ok(Self {
            current: None,
            ids: bodies.iter().map(|_| ids::job(now)).collect(),
            jobs: Vec::with_capacity(bodies.len()),
            rest: bodies.into_iter(),
            is_array,
            origin,
        })
    }

    /// Accepts the entries that are left. After an error it may be called again, and continues with the entry
    /// that was not accepted.
    pub(super) fn accept(&mut self, api: &Api, budget: &mut Budget) -> Result<(), ApiError> {
        while let Some(mut entry) = self
            .current
            .take()
            .or_else(|| self.rest.next().map(Entry::from))
        {
            let n = self.jobs.len();
            let sender = Sender {
                api,
                origin: &self.origin,
                siblings: &self.ids,
            };
            match sender.accept(self.ids[n], &mut entry, budget) {
                Ok(job) => self.jobs.push(job),
                Err(error) => {
                    self.current = Some(entry);
                    return Err(at(self.is_array, n, error));
                }
            }
        }
        Ok(())
    }

    pub(super) fn into_jobs(self) -> Vec<NewJob> {
        self.jobs
    }
}

/// Returns the entries, of this many, that an entry waits for.
fn references(body: &NewJobBody, entries: usize) -> Result<Vec<usize>, ApiError> {
    let references = prerequisites::references(body).collect::<Result<Vec<_>, _>>()?;
    match references.iter().find(|index| **index >= entries) {
        None => Ok(references),
        Some(n) => {
            let detail = format!("depends_on names #{n}, but there are {entries} entries, from #0");
            Err(ApiError::new(&kinds::UNKNOWN_PREREQUISITE, detail))
        }
    }
}

/// Names the entry of an array in its error.
fn at(is_array: bool, n: usize, error: ApiError) -> ApiError {
    if is_array {
        error.at(&format!("#{n}"))
    } else {
        error
    }
}

/// Refuses an entry that joins the batch of an entry which makes none.
fn check_batch(body: &NewJobBody, entries: &[NewJobBody]) -> Result<(), ApiError> {
    let makes = |body: &NewJobBody| body.batch.as_ref().is_some_and(|it| it.plan().is_some());
    match batch::reference(body)? {
        Some(n) if !entries.get(n).is_some_and(makes) => Err(ApiError::invalid(format!(
            "batch: entry #{n} makes no batch"
        ))),
        _ => Ok(()),
    }
}

/// Who enqueues the entries of a request, and the ids of all of them.
struct Sender<'a> {
    api: &'a Api,
    origin: &'a Option<Box<Origin>>,
    siblings: &'a [JobId],
}

impl Sender<'_> {
    /// Routes one entry and makes its job.
    fn accept(
        &self,
        id: JobId,
        entry: &mut Entry,
        budget: &mut Budget,
    ) -> Result<NewJob, ApiError> {
        let api = self.api;
        let origin = self.origin.as_ref();
        let scope = origin.map_or(&EVERYTHING, |origin| &origin.scope);
        let queue = entry::queue(&entry.body)?;
        let (route, handler) = route::find(api, scope, &entry.body.handler, queue)?;
        entry.check_params(api, &route, handler.as_deref(), budget)?;
        let batch = self.membership(id, &entry.body, budget)?;
        let body = std::mem::take(&mut entry.body);
        let notify = self.notify(&body.handler, &route.queue, body.notify.clone())?;
        let mut job = entry::into_job(body, id, route, batch, self.siblings, api.clock)?;
        job.notify = notify;
        job.payload.origin.clone_from(self.origin);
        if let Some(runner) = &job.executor {
            let placed = api.executors.place(runner, &job.payload.attributes);
            job.executor =
                Some(placed.map_err(|detail| ApiError::invalid(format!("attributes: {detail}")))?);
        }
        Ok(job)
    }

    /// Returns the batch that a job joins or makes.
    fn membership(
        &self,
        id: JobId,
        body: &NewJobBody,
        budget: &mut Budget,
    ) -> Result<Option<Membership>, ApiError> {
        let plan = match &body.batch {
            None => return Ok(None),
            Some(JobBatchBody::Id(text)) => return batch::named(text, self.siblings).map(Some),
            Some(JobBatchBody::New(plan)) => plan,
        };
        let in_batch = |error: ApiError| error.at("batch");
        let mut callbacks = Vec::new();
        let bodies = batch::callback_bodies(BatchId(id.0), plan).map_err(in_batch)?;
        for (on, callback) in bodies {
            let accepted = self.accept(id, &mut Entry::from(callback), budget);
            let mut job = accepted.map_err(|error| in_batch(error.at(on.as_str())))?;
            "batch".clone_into(&mut job.payload.wire);
            callbacks.push((on, job));
        }
        let (is_open, origin) = (plan.open, self.origin.clone());
        let read = batch::plan(self.api, (**plan).clone(), callbacks, origin);
        let start = BatchStart {
            plan: read.map_err(in_batch)?,
            is_open,
        };
        Ok(Some(Membership::Starts(Box::new(start))))
    }

    /// Returns the receivers of a job's end: its own, and its queue's.
    fn notify(
        &self,
        handler: &str,
        queue: &Name,
        asked: Option<NotifyBody>,
    ) -> Result<Vec<Notify>, ApiError> {
        let webhooks = &self.api.webhooks;
        let sender = webhooks::Sender::Job { handler, queue };
        let own = asked
            .map(|body| webhooks.check(body, &JOB_EVENTS, sender))
            .transpose()
            .map_err(ApiError::invalid)?;
        let of_queue = webhooks.of_queue(queue).cloned();
        let mut all: Vec<Notify> = own.into_iter().chain(of_queue).collect();
        all.dedup();
        Ok(all)
    }
}
