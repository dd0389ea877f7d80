//! The id of a job in the path, or the start of one.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use host_core::id::{JobId, start_of_id};
use host_core::query::JobFilter;
use host_http::extract::TextInPath;
use host_http::gate::Caller;
use host_http::problem::Problem;

use super::Shared;
use super::error::ApiError;
use super::problem::kinds;
use super::scoped::{scope, sees_job};

/// How many characters an id has.
const ID_CHARS: usize = 36;

/// The id of a job in the path, or the start of one, and who names it.
pub(super) struct IdInPath {
    text: String,
    caller: Caller,
}

impl FromRequestParts<Shared> for IdInPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Problem> {
        let TextInPath(text) = TextInPath::from_request_parts(parts, shared).await?;
        let caller = Caller::from_request_parts(parts, shared).await?;
        Ok(Self { text, caller })
    }
}

impl IdInPath {
    /// Names the job by a part of the path.
    pub(super) const fn new(text: String, caller: Caller) -> Self {
        Self { text, caller }
    }

    /// Returns the one job whose id starts so, among those that the caller may see.
    pub(super) async fn find(self, shared: &Shared) -> Result<JobId, ApiError> {
        let Self { text, caller } = self;
        let start = start_of_id(&text);
        if let Some(start) = &start
            && start.len() == ID_CHARS
            && let Ok(id) = start.parse()
        {
            return if sees_job(shared, &caller, id).await? {
                Ok(id)
            } else {
                Err(unknown(id))
            };
        }
        let unknown = || {
            let shown: String = text.chars().take(ID_CHARS).collect();
            ApiError::new(
                &kinds::JOB_NOT_FOUND,
                format!("no job has an id that starts with {shown:?}"),
            )
        };
        let Some(start) = start else {
            return Err(unknown());
        };
        let seen = if scope(&caller).is_all() {
            let found = shared.read(move |reader| reader.job_ids(&start, 2));
            found.await?
        } else {
            seen_ids(shared, &caller, start).await?
        };
        match seen.as_slice() {
            [] => Err(unknown()),
            [id] => Ok(*id),
            [one, other, ..] => Err(ApiError::new(
                &kinds::AMBIGUOUS_ID,
                format!("ambiguous id: {text} matches {one}, {other} and possibly more"),
            )),
        }
    }
}

/// Returns two ids with this start at least, if a caller may see as many such jobs.
async fn seen_ids(shared: &Shared, caller: &Caller, start: String) -> Result<Vec<JobId>, ApiError> {
    let filter = JobFilter {
        id: Some(start),
        scope: scope(caller).clone(),
        ..JobFilter::default()
    };
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let filter = filter.clone();
        let page = shared
            .api
            .dispatch
            .scan(move |reader| reader.matching(&filter, after, 2))
            .await?;
        seen.extend(page.items);
        after = page.next;
        if seen.len() > 1 || after.is_none() {
            return Ok(seen);
        }
    }
}

/// Makes the refusal of an id that no job has, as far as the caller may know.
pub(super) fn unknown(id: JobId) -> ApiError {
    ApiError::new(&kinds::JOB_NOT_FOUND, format!("no job has the id {id}"))
}
