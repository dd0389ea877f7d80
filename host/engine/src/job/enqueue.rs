//! Accepts jobs: either all jobs of a command or none.

use std::collections::{BTreeMap, BTreeSet};

use host_core::access::Object;
use host_core::graph::find_cycle;
use host_core::id::JobId;
use host_core::job::{
    BATCH_ATTRIBUTE, KeyOfJob, Lifecycle, NewJob, OnConflict, Payload, State, UniqueKey,
};
use host_core::name::{Name, address};
use host_core::transition::Input;

use super::results::Results;
use super::{Enqueued, JobRefusal, inputs, params};
use crate::artifact::renamed;
use crate::component::ComponentRefusal;
use crate::token::TokenRefusal;
use crate::{Batch, Rows, Stop};

impl<R: Rows> Batch<'_, R> {
    /// Accepts the jobs so that prerequisites come first. The reply has the order of the command. The batches that they make are
    /// there.
    pub(crate) fn enqueue_in_batches(&mut self, jobs: &[NewJob]) -> Result<Vec<Enqueued>, Stop> {
        check_scopes(jobs)?;
        self.check_deployed(jobs)?;
        let stands_for = self.existing(jobs)?;
        let ended = self.ended_prerequisites(jobs, &stands_for)?;
        check_cycles(jobs, &stands_for)?;
        let is_new = |new: &&NewJob| stands_for[&new.id] == new.id;
        for new in jobs {
            self.check_attempts(new.policy.max_attempts)?;
        }
        self.check_live(jobs.iter().filter(is_new).count())?;
        self.check_owned(jobs.iter().filter(is_new))?;
        self.check_queues(jobs.iter().filter(is_new).map(|new| &new.queue))?;
        self.check_batches(jobs.iter().filter(is_new))?;
        let mut results = self.read_inputs(jobs.iter().filter(is_new), &stands_for, &ended)?;
        self.check_files(jobs.iter().filter(is_new), &stands_for)?;
        let mut keys = self.keys_of(jobs.iter().filter(is_new))?;
        for new in jobs {
            if is_new(&new) {
                let mut accepted = new.clone();
                if let Some(batch) = new.batch_id() {
                    let attribute = (BATCH_ATTRIBUTE.to_owned(), batch.to_string());
                    accepted.payload.attributes.push(attribute);
                }
                accepted.depends_on = prerequisites(new, &stands_for);
                let conditions = new.conditions.as_deref();
                let stands_for = |id| stands_for.get(&id).copied().unwrap_or(id);
                accepted.conditions = conditions.map(|it| Box::new(it.renamed(stands_for)));
                accepted.files = renamed(&new.files, stands_for);
                let keys = keys.remove(&new.id).unwrap_or_default();
                self.accept(accepted, keys, &ended)?;
            }
        }
        self.settle_new(jobs, &stands_for, &ended, &mut results)?;
        for new in jobs.iter().filter(|new| !is_new(new)) {
            self.resolve_conflict(new, stands_for[&new.id])?;
        }
        let mut replies = Vec::with_capacity(jobs.len());
        for new in jobs {
            let id = stands_for[&new.id];
            let existing = id != new.id;
            let params_differ = existing && self.params_differ(id, new)?;
            replies.push(Enqueued {
                id,
                state: self.get(id)?.state,
                existing,
                params_differ,
            });
        }
        Ok(replies)
    }

    /// Checks that this many more jobs may wait.
    pub(crate) fn check_live(&mut self, new: usize) -> Result<(), Stop> {
        let (jobs, limit) = (self.rows.counts().live, self.bounds.capacity.jobs_max);
        if new > 0 && jobs.saturating_add(new as u64) > limit {
            return Err(JobRefusal::TooManyWaiting { jobs, limit }.into());
        }
        Ok(())
    }

    /// Checks how many attempts a new job asks for.
    pub(crate) fn check_attempts(&self, asked: u32) -> Result<(), Stop> {
        let limit = self.bounds.capacity.attempts_max;
        if asked > limit {
            return Err(JobRefusal::TooManyAttempts { asked, limit }.into());
        }
        Ok(())
    }

    /// Adds a new job with the keys of its limits. Prerequisites that have ended are settled later.
    pub(crate) fn accept(
        &mut self,
        mut new: NewJob,
        keys: Vec<KeyOfJob>,
        ended: &BTreeMap<JobId, State>,
    ) -> Result<(), Stop> {
        let open = u32::try_from(new.depends_on.len()).unwrap_or(u32::MAX);
        let mut job = Lifecycle::accept(self.now, &new, open);
        job.limits.keys = keys;
        self.pass_limits(None, &mut job)?;
        self.replace_waiting(&job)?;
        self.make_way(&job)?;
        self.rows.insert(&job, &new)?;
        self.keep_files(&new)?;
        if let Some(owner) = &job.owner {
            self.rows.count_owned(owner, 1)?;
        }
        new.depends_on.retain(|id| !ended.contains_key(id));
        self.rows.set_dependencies(&job, &new.depends_on)?;
        self.count_in_batch(None, &job);
        self.record_change(None, Some(&job));
        Ok(())
    }

    /// Refuses jobs whose component was removed after their handler was looked up.
    pub(crate) fn check_deployed(&mut self, jobs: &[NewJob]) -> Result<(), Stop> {
        let mut deployed = BTreeSet::new();
        for new in jobs {
            let Some(component) = &new.component else {
                continue;
            };
            if deployed.insert(component) && !self.rows.has_component(component)? {
                return Err(ComponentRefusal::HandlerRemoved(new.handler.clone()).into());
            }
        }
        Ok(())
    }

    /// Resolves the unique key of each new job: to an existing job in scope, an earlier one of the same
    /// command, or the new job itself.
    pub(crate) fn existing(&mut self, jobs: &[NewJob]) -> Result<BTreeMap<JobId, JobId>, Stop> {
        let mut keys = BTreeMap::new();
        let mut stands_for = BTreeMap::new();
        for new in jobs {
            let mut id = new.id;
            if let Some(UniqueKey { key, scope, .. }) = &new.unique_key {
                // A job that the principal may not see does not hold its key against it.
                let latest = self
                    .rows
                    .by_unique_key(&new.queue, key)?
                    .map(|id| self.get(id))
                    .transpose()?
                    .filter(|job| is_visible(new, job));
                id = match latest.filter(|job| scope.has(job, self.now)) {
                    Some(existing) => existing.id,
                    None => *keys
                        .entry((new.queue.clone(), key.clone()))
                        .or_insert(new.id),
                };
            }
            stands_for.insert(new.id, id);
        }
        Ok(stands_for)
    }

    /// Changes the job that counts as a new one with its unique key, as that asks.
    fn resolve_conflict(&mut self, new: &NewJob, earlier: JobId) -> Result<(), Stop> {
        let on_conflict = new
            .unique_key
            .as_ref()
            .map(|unique| unique.on_conflict)
            .unwrap_or_default();
        if on_conflict == OnConflict::Keep {
            return Ok(());
        }
        let job = self.get(earlier)?;
        let waits = matches!(
            job.state,
            State::Pending | State::Scheduled | State::Available
        );
        let has_inputs = job.inputs().next().is_some();
        let is_alike = job.handler == new.handler && job.executor == new.executor;
        // The params of the new one may be about its files.
        if !waits || job.attempt > 0 || has_inputs || !new.files.is_empty() || !is_alike {
            return Ok(());
        }
        let payload = self.rows.payload(earlier)?;
        let principal = |payload: &Payload| payload.origin.as_ref().map(|it| it.principal.clone());
        if principal(&payload) != principal(&new.payload) {
            return Ok(());
        }
        self.rows.set_params(earlier, &new.payload.params)?;
        if on_conflict == OnConflict::PushBack {
            let run_at = new
                .run_at
                .into_iter()
                .chain(payload.latest_start)
                .min()
                .unwrap_or(self.now);
            self.apply(&job, &Input::Reschedule(run_at))?;
        }
        Ok(())
    }

    /// Returns whether the job that counts as a new one has other params, apart from inputs.
    fn params_differ(&mut self, earlier: JobId, new: &NewJob) -> Result<bool, Stop> {
        let params = self.rows.payload(earlier)?.params;
        let has_inputs = self.get(earlier)?.inputs().next().is_some();
        let params = if has_inputs {
            inputs::without(&params)
        } else {
            params
        };
        Ok(!params::same(&params, &new.payload.params))
    }

    /// Returns the prerequisites that have ended. Refuses those that do not exist.
    fn ended_prerequisites(
        &mut self,
        jobs: &[NewJob],
        stands_for: &BTreeMap<JobId, JobId>,
    ) -> Result<BTreeMap<JobId, State>, Stop> {
        let (mut seen, mut ended) = (BTreeSet::new(), BTreeMap::new());
        for new in jobs {
            for id in prerequisites(new, stands_for) {
                // What principals may see differs between jobs, but those of one command have the same.
                if stands_for.get(&id) == Some(&id) || !seen.insert(id) {
                    continue;
                }
                let job = self
                    .rows
                    .job(id)?
                    .filter(|job| is_visible(new, job))
                    .ok_or(JobRefusal::UnknownPrerequisite(id))?;
                if job.state.is_terminal() {
                    ended.insert(id, job.state);
                }
            }
        }
        Ok(ended)
    }

    /// Settles the prerequisites of new jobs that have already ended.
    fn settle_new(
        &mut self,
        jobs: &[NewJob],
        stands_for: &BTreeMap<JobId, JobId>,
        ended: &BTreeMap<JobId, State>,
        results: &mut Results,
    ) -> Result<(), Stop> {
        for new in jobs.iter().filter(|new| stands_for[&new.id] == new.id) {
            for id in prerequisites(new, stands_for) {
                let Some(state) = ended.get(&id) else {
                    continue;
                };
                let job = self.get(new.id)?;
                if job.state != State::Pending {
                    continue;
                }
                let (_, given) = self.give_inputs(&job, (id, *state), results)?;
                let input = match &given {
                    Ok(()) => Input::PrerequisiteEnded(id, *state),
                    Err(failure) => Input::InputFailed(failure),
                };
                self.apply(&job, &input)?;
            }
        }
        Ok(())
    }
}

/// Refuses jobs that their principals may not enqueue, wherever they come from.
pub(crate) fn check_scopes(jobs: &[NewJob]) -> Result<(), Stop> {
    for new in jobs {
        let Some(origin) = &new.payload.origin else {
            continue;
        };
        let executor = new.executor.as_ref().map(Name::as_str);
        let object = Object::Job(new.queue.as_str(), executor, new.handler.as_str());
        if !origin.scope.has(object) {
            let handler = address(new.executor.as_ref(), &new.handler).into_owned();
            return Err(TokenRefusal::OutOfScope { handler }.into());
        }
    }
    Ok(())
}

/// Returns whether the principal of a new job may see another one.
fn is_visible(new: &NewJob, job: &Lifecycle) -> bool {
    let origin = new.payload.origin.as_ref();
    origin.is_none_or(|origin| origin.scope.has(job.into()))
}

/// Refuses jobs that wait for each other because unique keys merge jobs of the same command. The API has
/// refused other cycles, and no existing job waits for a new one.
fn check_cycles(jobs: &[NewJob], stands_for: &BTreeMap<JobId, JobId>) -> Result<(), Stop> {
    let places: BTreeMap<JobId, usize> = jobs
        .iter()
        .enumerate()
        .map(|(place, new)| (new.id, place))
        .collect();
    let stands_for_another = |new: &NewJob| {
        let id = stands_for[&new.id];
        id != new.id && places.contains_key(&id)
    };
    if !jobs.iter().any(stands_for_another) {
        return Ok(());
    }
    let graph: Vec<Vec<usize>> = jobs
        .iter()
        .map(|new| {
            let waits = stands_for[&new.id] == new.id;
            let named = waits
                .then(|| prerequisites(new, stands_for))
                .into_iter()
                .flatten();
            named.filter_map(|id| places.get(&id).copied()).collect()
        })
        .collect();
    match find_cycle(&graph) {
        Some(cycle) => Err(JobRefusal::DependencyCycle(cycle).into()),
        None => Ok(()),
    }
}

/// Returns the jobs that a new job waits for. Each appears once, even if several keys name it, and
/// the job itself never does.
fn prerequisites(new: &NewJob, stands_for: &BTreeMap<JobId, JobId>) -> Vec<JobId> {
    let mut seen = BTreeSet::from([new.id]);
    let named = new.depends_on.iter();
    let ids = named.map(|named| *stands_for.get(named).unwrap_or(named));
    ids.filter(|id| seen.insert(*id)).collect()
}
