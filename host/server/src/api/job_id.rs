//! The id of a job in the path, or the start of one.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use host_core::id::JobId;
use host_http::extract::TextInPath;
use host_http::problem::Problem;

use super::Shared;
use super::error::ApiError;
use super::problem::kinds;

/// How many characters an id has.
const ID_CHARS: usize = 36;

/// The id of a job in the path, or the start of one.
pub(super) struct IdInPath(String);

impl FromRequestParts<Shared> for IdInPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Problem> {
        let TextInPath(text) = TextInPath::from_request_parts(parts, shared).await?;
        Ok(Self(text.to_ascii_lowercase()))
    }
}

impl IdInPath {
    /// Returns the one job whose id starts so.
    pub(super) async fn find(self, shared: &Shared) -> Result<JobId, ApiError> {
        let text = self.0;
        if text.len() == ID_CHARS
            && let Ok(id) = text.parse()
        {
            return Ok(id);
        }
        let unknown = || {
            let shown: String = text.chars().take(ID_CHARS).collect();
            ApiError::new(
                &kinds::JOB_NOT_FOUND,
                format!("no job has an id that starts with {shown:?}"),
            )
        };
        let is_start = |c: char| c.is_ascii_hexdigit() || c == '-';
        if text.is_empty() || text.len() >= ID_CHARS || !text.chars().all(is_start) {
            return Err(unknown());
        }
        let start = text.clone();
        let found = shared
            .api
            .dispatch
            .read(move |reader| reader.job_ids(&start, 2));
        match found.await?.as_slice() {
            [] => Err(unknown()),
            [id] => Ok(*id),
            [one, other, ..] => Err(ApiError::new(
                &kinds::AMBIGUOUS_ID,
                format!("ambiguous id: {text} matches {one}, {other} and perhaps more"),
            )),
        }
    }
}
