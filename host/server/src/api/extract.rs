//! What requests carry in their path and query, read with the API's own refusals.

use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use host_core::id::JobId;
use host_core::name::Name;
use serde::de::DeserializeOwned;

use super::Shared;
use super::json::with_nearest;
use super::problem::{Code, Problem};

/// How many characters an id has.
const ID_CHARS: usize = 36;

/// A name in the path.
pub(super) struct InPath(pub(super) Name);

/// Any text in the path.
pub(super) struct TextInPath(pub(super) String);

/// The id of a job in the path, or the start of one.
pub(super) struct IdInPath(String);

/// The query string as `T`.
pub(super) struct InQuery<T>(pub(super) T);

impl FromRequestParts<Shared> for InPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Problem> {
        let text = segment(parts, shared).await?;
        text.parse()
            .map(Self)
            .map_err(|error| Problem::new(Code::InvalidName, format!("{error}")))
    }
}

impl FromRequestParts<Shared> for IdInPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Problem> {
        let text = segment(parts, shared).await?;
        Ok(Self(text.to_ascii_lowercase()))
    }
}

impl FromRequestParts<Shared> for TextInPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Problem> {
        segment(parts, shared).await.map(Self)
    }
}

/// Returns the one parameter of the path.
pub(super) async fn segment(parts: &mut Parts, shared: &Shared) -> Result<String, Problem> {
    let Ok(Path(text)) = Path::<String>::from_request_parts(parts, shared).await else {
        return Err(Problem::new(Code::InvalidName, "the path is not UTF-8"));
    };
    Ok(text)
}

impl<T: DeserializeOwned> FromRequestParts<Shared> for InQuery<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Problem> {
        match Query::<T>::from_request_parts(parts, shared).await {
            Ok(Query(query)) => Ok(Self(query)),
            Err(rejection) => {
                let text = match rejection {
                    QueryRejection::FailedToDeserializeQueryString(error) => {
                        std::error::Error::source(&error)
                            .map_or_else(|| error.to_string(), std::string::ToString::to_string)
                    }
                    other => other.to_string(),
                };
                let text = with_nearest(&text).replace("unknown field", "unknown parameter");
                Err(Problem::new(Code::InvalidQuery, text))
            }
        }
    }
}

impl IdInPath {
    /// Returns the one job whose id starts so.
    pub(super) async fn find(self, shared: &Shared) -> Result<JobId, Problem> {
        let text = self.0;
        if text.len() == ID_CHARS
            && let Ok(id) = text.parse()
        {
            return Ok(id);
        }
        let unknown = || {
            let shown: String = text.chars().take(ID_CHARS).collect();
            Problem::new(
                Code::JobNotFound,
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
            [one, other, ..] => Err(Problem::new(
                Code::AmbiguousId,
                format!("several ids start with {text}, {one} and {other} among them"),
            )),
        }
    }
}
