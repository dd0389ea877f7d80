//! Gives jobs the results of those that they depend on: each when it has ended, so that it may be forgotten then.

use std::collections::BTreeMap;

use host_core::failure::Failure;
use host_core::id::JobId;
use host_core::job::{Lifecycle, NewJob, State};
use host_core::json::JsonText;
use host_core::prerequisite::Verdict;

use super::inputs::{INPUTS_MAX, InputError, PARAMS_BYTES_MAX};
use super::{JobRefusal, inputs};
use crate::{Batch, Rows, Stop, StoreError};

/// How many bytes of results the new jobs of a command may get, and how many bytes of params the cascades of a batch write,
/// which the last job may exceed.
pub(crate) const INPUT_BYTES_MAX: usize = PARAMS_BYTES_MAX;

/// The results that were read.
pub(crate) type Results = BTreeMap<JobId, Option<JsonText>>;

impl<R: Rows> Batch<'_, R> {
    /// Gives a job that waits its inputs from a prerequisite that has ended as it needs. Returns how many bytes that took,
    /// and why it failed if it did.
    pub(crate) fn give_inputs(
        &mut self,
        job: &Lifecycle,
        (prerequisite, ended): (JobId, State),
        results: &mut Results,
    ) -> Result<(usize, Result<(), Failure>), StoreError> {
        let of_it = |(_, id): &(&str, JobId)| *id == prerequisite;
        let names: Vec<&str> = job.inputs().filter(of_it).map(|(name, _)| name).collect();
        if names.is_empty() || job.judge(prerequisite, ended) != Verdict::Met {
            return Ok((0, Ok(())));
        }
        let result = self.result(prerequisite, ended, results)?;
        let mut params = self.rows.payload(job.id)?.params;
        let mut bytes = params.as_str().len();
        for name in names {
            match add(&params, name, result.as_ref()) {
                Ok(with) => params = with,
                Err(error) => return Ok((bytes, Err(error.failure(name, prerequisite)))),
            }
        }
        bytes += params.as_str().len();
        self.rows.set_params(job.id, &params)?;
        Ok((bytes, Ok(())))
    }

    /// Reads the results that new jobs get of jobs that have ended. Refuses results that the caller may not see,
    /// and too many.
    pub(crate) fn read_inputs<'n>(
        &mut self,
        jobs: impl Iterator<Item = &'n NewJob>,
        stands_for: &BTreeMap<JobId, JobId>,
        ended: &BTreeMap<JobId, State>,
    ) -> Result<Results, Stop> {
        let (mut results, mut bytes) = (Results::new(), 0);
        for conditions in jobs.filter_map(|new| new.conditions.as_deref()) {
            for (_, named) in &conditions.inputs {
                let id = *stands_for.get(named).unwrap_or(named);
                if !conditions.reads_others && stands_for.get(&id) != Some(&id) {
                    return Err(JobRefusal::InputHidden(id).into());
                }
                if let Some(state @ State::Completed) = ended.get(&id) {
                    let result = self.result(id, *state, &mut results)?;
                    bytes += result.map_or(0, |result| result.as_str().len());
                }
                if results.len() > INPUTS_MAX || bytes > INPUT_BYTES_MAX {
                    return Err(JobRefusal::TooManyInputs {
                        results_max: INPUTS_MAX,
                        bytes_max: INPUT_BYTES_MAX,
                    }
                    .into());
                }
            }
        }
        Ok(results)
    }

    /// Gives a job that is to run again those of its inputs that it lacks, of jobs that have ended.
    pub(crate) fn give_missing_inputs(
        &mut self,
        job: &Lifecycle,
        open: &[JobId],
    ) -> Result<(), Stop> {
        if job.inputs().next().is_none() {
            return Ok(());
        }
        let params = self.rows.payload(job.id)?.params;
        let is_missing =
            |(name, id): &(&str, JobId)| !open.contains(id) && !inputs::has(&params, name);
        let missing: Vec<(&str, JobId)> = job.inputs().filter(is_missing).collect();
        let mut with = params.clone();
        let mut results = Results::new();
        for (name, id) in missing {
            let result = match self.rows.job(id)? {
                Some(of) => self.result(id, of.state, &mut results)?,
                None => None,
            };
            let refused = |error: InputError| JobRefusal::InputFailed(error.sentence(name, id));
            with = add(&with, name, result.as_ref()).map_err(refused)?;
        }
        if with != params {
            self.rows.set_params(job.id, &with)?;
        }
        Ok(())
    }

    /// Returns what a job that has ended gives others: its result, `null` if it has none; `None` if it is no longer kept.
    fn result(
        &mut self,
        id: JobId,
        ended: State,
        results: &mut Results,
    ) -> Result<Option<JsonText>, StoreError> {
        if ended != State::Completed {
            return Ok(Some(JsonText::null()));
        }
        if let Some(result) = results.get(&id) {
            return Ok(result.clone());
        }
        let result = self.rows.result(id)?;
        results.insert(id, result.clone());
        Ok(result)
    }
}

/// Returns the params with a result that is still kept.
fn add(params: &JsonText, name: &str, result: Option<&JsonText>) -> Result<JsonText, InputError> {
    inputs::add(params, name, result.ok_or(InputError::Gone)?)
}
