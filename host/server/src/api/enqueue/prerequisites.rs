//! The jobs that a new one waits for, and whose results and files it gets, as a request names them.

use std::collections::BTreeMap;

use host_api::artifact::read_source;
use host_api::depends_on::DependsOnBody;
use host_api::new_job::NewJobBody;
use host_core::artifact::{FileSource, INPUT_FILES_MAX, InputFile, flaw_of_name};
use host_core::id::JobId;
use host_core::job::NewJob;
use host_core::json::JsonText;
use host_core::prerequisite::{Conditions, When};
use host_engine::job::inputs;
use host_engine::job::inputs::INPUTS_MAX;
use host_http::gate::Caller;

use crate::api::error::ApiError;
use crate::api::problem::kinds;
use crate::api::scoped::sees_payloads;

/// The most jobs that one may wait for.
const PREREQUISITES_MAX: usize = 1_000;

/// The longest name of an input, in bytes.
const INPUT_NAME_BYTES_MAX: usize = 64;

/// How much of a name is shown, in characters.
const SHOWN_MAX: usize = 64;

/// Returns the entries of the same array that it waits for.
pub(super) fn references(body: &NewJobBody) -> impl Iterator<Item = Result<usize, ApiError>> {
    let named = body.depends_on.iter().map(DependsOnBody::job);
    named.filter_map(|text| text.strip_prefix('#')).map(|n| {
        n.parse().map_err(|_| {
            ApiError::invalid(format!(
                "depends_on: #{n} is not a valid reference; write # and a number"
            ))
        })
    })
}

/// Returns the jobs that it waits for, and what it asks of them.
pub(super) fn read(
    body: &NewJobBody,
    siblings: &[JobId],
) -> Result<(Vec<JobId>, Option<Box<Conditions>>), ApiError> {
    if body.depends_on.len() > PREREQUISITES_MAX {
        return Err(ApiError::invalid(format!(
            "depends_on: must name at most {PREREQUISITES_MAX} jobs"
        )));
    }
    let mut when = BTreeMap::new();
    let mut ids = Vec::with_capacity(body.depends_on.len());
    for entry in &body.depends_on {
        let id = job("depends_on", entry.job(), siblings)?;
        match when.insert(id, entry.when()) {
            None => ids.push(id),
            Some(other) if other == entry.when() => {}
            Some(other) => {
                return Err(ApiError::invalid(format!(
                    "depends_on: {} is named with {} and with {}; name it once",
                    entry.job(),
                    other.as_str(),
                    entry.when().as_str()
                )));
            }
        }
    }
    let mut conditions = Conditions::default();
    if when.values().any(|when| *when != When::Completed) {
        conditions.when = when.iter().map(|(id, when)| (*id, *when)).collect();
    }
    conditions.inputs = inputs(body, siblings, &when)?;
    Ok((ids, conditions.some()))
}

/// Returns the names of inputs, each with a job that it waits for and that may return a result.
fn inputs(
    body: &NewJobBody,
    siblings: &[JobId],
    when: &BTreeMap<JobId, When>,
) -> Result<Vec<(Box<str>, JobId)>, ApiError> {
    if body.inputs.len() > INPUTS_MAX {
        let given = body.inputs.len();
        return Err(ApiError::invalid(format!(
            "inputs: may be at most {INPUTS_MAX}, got {given}"
        )));
    }
    let input = |(name, of): (&String, &String)| {
        if name.is_empty() || name.len() > INPUT_NAME_BYTES_MAX {
            return Err(ApiError::invalid(format!(
                "inputs: a name must have 1–{INPUT_NAME_BYTES_MAX} bytes, got {}",
                name.len()
            )));
        }
        let id = job(&format!("inputs.{name}"), of, siblings)?;
        match when.get(&id) {
            Some(When::Completed | When::Ended) => Ok((name.as_str().into(), id)),
            Some(When::Failed) => Err(ApiError::invalid(format!(
                "inputs.{name}: a job that has to fail has no result"
            ))),
            None => Err(ApiError::invalid(format!(
                "inputs.{name}: {of} is not in depends_on; add it there"
            ))),
        }
    };
    body.inputs.iter().map(input).collect()
}

/// Returns the files that it reads. Artifacts are those of jobs that it waits for.
pub(super) fn files(
    body: &NewJobBody,
    siblings: &[JobId],
    depends_on: &[JobId],
) -> Result<Vec<InputFile>, ApiError> {
    if body.files.len() > INPUT_FILES_MAX {
        let given = body.files.len();
        return Err(ApiError::invalid(format!(
            "files: may be at most {INPUT_FILES_MAX}, got {given}"
        )));
    }
    let file = |(name, from): (&String, &String)| {
        let shown = |text: &str| text.chars().take(SHOWN_MAX).collect::<String>();
        let field = format!("files.{}", shown(name));
        let invalid = || {
            let from = shown(from);
            let cause = "is neither the id of an upload nor JOB/NAME";
            ApiError::invalid(format!("{field}: {from:?} {cause}"))
        };
        let source = read_source(from, |text| job(&field, text, siblings), invalid)?;
        let artifact = match &source {
            FileSource::Artifact(id, _) if !depends_on.contains(id) => {
                let cause = "its job is not in depends_on; add it there";
                return Err(ApiError::invalid(format!("{field}: {cause}")));
            }
            FileSource::Artifact(_, artifact) => Some(artifact.as_str()),
            FileSource::Upload(_) => None,
        };
        let flaw = flaw_of_name(name).or_else(|| artifact.and_then(flaw_of_name));
        match flaw {
            Some(flaw) => Err(ApiError::invalid(format!("{field}: {flaw}"))),
            None => Ok(InputFile {
                name: name.clone(),
                source,
            }),
        }
    };
    body.files.iter().map(file).collect()
}

/// Returns the params of a job that gets inputs.
pub(super) fn params_with_room(params: JsonText) -> Result<JsonText, ApiError> {
    inputs::prepare(params).map_err(|_| {
        let detail = "params: with inputs, they must be an object without a member inputs";
        ApiError::new(&kinds::INVALID_PARAMS, detail)
    })
}

/// Lets jobs have results and artifacts of jobs that were there before, if the caller may read results.
pub(in crate::api) fn let_read(caller: &Caller, jobs: &mut [NewJob]) {
    let conditions = jobs.iter_mut().filter_map(|job| job.conditions.as_mut());
    for conditions in conditions {
        conditions.reads_others = sees_payloads(caller);
    }
}

/// Returns the job that a text names: an id, or an entry of the same array.
fn job(field: &str, text: &str, siblings: &[JobId]) -> Result<JobId, ApiError> {
    let sibling = text.strip_prefix('#').and_then(|n| n.parse::<usize>().ok());
    match sibling.and_then(|n| siblings.get(n)) {
        Some(id) => Ok(*id),
        None => text.parse().map_err(|_| {
            let shown: String = text.chars().take(SHOWN_MAX).collect();
            ApiError::invalid(format!("{field}: {shown:?} is neither an id nor #n"))
        }),
    }
}
