//! Problems with which handlers refuse requests, made from the errors of other parts of the host.

use axum::response::{IntoResponse, Response};
use host_dispatch::SubmitError;
use host_engine::{Rejection, StoreError};
use host_http::json::JsonError;
use host_http::problem::{Kind, Problem};
use host_http::refusal::Refusal;

use super::problem::kinds;

/// A refusal on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApiError(Problem);

impl ApiError {
    /// Makes a refusal of a kind; `detail` says what is wrong with this request.
    pub(super) fn new(kind: &'static Kind, detail: impl Into<String>) -> Self {
        Self(Problem::new(kind, detail))
    }

    /// Makes the refusal of a body; `detail` says what is wrong with it.
    pub(super) fn invalid(detail: impl Into<String>) -> Self {
        Self::new(&kinds::INVALID_REQUEST, detail)
    }

    /// Returns its kind.
    pub(super) fn kind(&self) -> &'static Kind {
        self.0.kind()
    }

    /// Returns what is wrong with the request.
    pub(super) fn detail(&self) -> &str {
        self.0.detail()
    }

    /// Returns the problem document.
    pub(super) fn document(&self) -> Vec<u8> {
        self.0.document()
    }

    /// Answers with 404, because the path names what is missing.
    pub(super) fn in_path(self) -> Self {
        Self(self.0.in_path())
    }

    /// Puts the place of the mistake in front of the detail.
    pub(super) fn at(self, place: &str) -> Self {
        Self(self.0.at(place))
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.0.into_response()
    }
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        Self(refusal.into())
    }
}

impl From<JsonError> for ApiError {
    fn from(error: JsonError) -> Self {
        Self(error.into())
    }
}

impl From<Rejection> for ApiError {
    fn from(rejection: Rejection) -> Self {
        let problem = Problem::new(rejection.kind(), rejection.to_string());
        Self(match rejection.state() {
            Some(state) => problem.with_state(state.as_str()),
            None => problem,
        })
    }
}

impl From<SubmitError> for ApiError {
    fn from(error: SubmitError) -> Self {
        let kind = match error {
            SubmitError::Rejected(rejection) => return rejection.into(),
            SubmitError::StoreFull => &kinds::STORE_FULL,
            SubmitError::StoreMoved => &kinds::STORE_MOVED,
            SubmitError::StoreAway => &kinds::STORE_AWAY,
            SubmitError::OutcomeUnknown => &kinds::OUTCOME_UNKNOWN,
            SubmitError::Busy => &kinds::BUSY,
            SubmitError::Failed(_) => &kinds::STORE_FAILED,
            SubmitError::Stopping => &kinds::STOPPING,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        let kind = match &error {
            StoreError::Full => &kinds::STORE_FULL,
            StoreError::Moved { .. } => &kinds::STORE_MOVED,
            StoreError::Failing { .. } => &kinds::STORE_FAILED,
            StoreError::Broken { .. } | StoreError::Newer { .. } | StoreError::Fenced => {
                &kinds::STORE_BROKEN
            }
            StoreError::Away { .. } => &kinds::STORE_AWAY,
            StoreError::Damaged { .. } | StoreError::Unreadable { .. } => &kinds::STORE_DAMAGED,
        };
        tracing::error!(%error, "a request met a failure of the store");
        Self::new(kind, error.to_string())
    }
}
