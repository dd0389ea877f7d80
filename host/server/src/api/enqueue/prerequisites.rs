//! The jobs that a new one waits for, as a request names them.

use std::collections::BTreeMap;

use host_api::depends_on::DependsOnBody;
use host_api::new_job::NewJobBody;
use host_core::id::JobId;
use host_core::prerequisite::{Conditions, When};

use crate::api::error::ApiError;
use crate::api::problem::kinds;

/// The most jobs that one may wait for.
const PREREQUISITES_MAX: usize = 1_000;

/// How much of a name is shown, in characters.
const SHOWN_MAX: usize = 64;

/// Returns the entries of the same array that it waits for.
pub(super) fn references(body: &NewJobBody) -> impl Iterator<Item = Result<usize, ApiError>> {
    let named = body.depends_on.iter().map(DependsOnBody::job);
    named.filter_map(|text| text.strip_prefix('#')).map(|n| {
        n.parse().map_err(|_| {
            invalid(format!(
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
        return Err(invalid(format!(
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
                return Err(invalid(format!(
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
        conditions.when = when.into_iter().collect();
    }
    Ok((ids, conditions.some()))
}

/// Returns the job that a text names: an id, or an entry of the same array.
fn job(field: &str, text: &str, siblings: &[JobId]) -> Result<JobId, ApiError> {
    let sibling = text.strip_prefix('#').and_then(|n| n.parse::<usize>().ok());
    match sibling.and_then(|n| siblings.get(n)) {
        Some(id) => Ok(*id),
        None => text.parse().map_err(|_| {
            let shown: String = text.chars().take(SHOWN_MAX).collect();
            invalid(format!("{field}: {shown:?} is neither an id nor #n"))
        }),
    }
}

fn invalid(detail: String) -> ApiError {
    ApiError::new(&kinds::INVALID_REQUEST, detail)
}
