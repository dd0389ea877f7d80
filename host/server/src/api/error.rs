//! Problems with which handlers refuse requests, made from the errors of other parts of the host.

use axum::response::{IntoResponse, Response};
use host_core::job::State;
use host_core::rejection::Rejection;
use host_dispatch::SubmitError;
use host_http::json::JsonError;
use host_http::problem::{Kind, Problem};
use host_http::refusal::Refusal;
use host_store::StoreError;

use super::problem::kinds;

/// A refusal on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApiError(Problem);

impl ApiError {
    /// Makes a refusal of a kind; `detail` says what is wrong with this request.
    pub(super) fn new(kind: &'static Kind, detail: impl Into<String>) -> Self {
        Self(Problem::new(kind, detail))
    }

    /// Makes the refusal of a request that the dispatch loop answered as if it were another one.
    pub(super) fn unexpected_reply(request: &str) -> Self {
        let detail = format!("the dispatch loop gave {request} the answer to another request");
        Self::new(&kinds::INTERNAL, detail)
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
        let kind = match &rejection {
            Rejection::UnknownJob(_) => &kinds::JOB_NOT_FOUND,
            Rejection::Stale
            | Rejection::LeaseExpired
            | Rejection::NotAcknowledged
            | Rejection::LogOffset { .. }
            | Rejection::CancelNotRequested => &kinds::STALE_LEASE,
            Rejection::Terminal(_) => &kinds::JOB_TERMINAL,
            Rejection::WrongState(_) => &kinds::JOB_NOT_TERMINAL,
            Rejection::Foreign => &kinds::JOB_FOREIGN,
            Rejection::UnknownPrerequisite(_) => &kinds::UNKNOWN_PREREQUISITE,
            Rejection::DependencyCycle(_) => &kinds::DEPENDENCY_CYCLE,
            Rejection::UniqueKeyTaken(_) => &kinds::UNIQUE_KEY_TAKEN,
            Rejection::PrerequisiteGone(_) => &kinds::PREREQUISITE_GONE,
            Rejection::InputHidden(_) => &kinds::INPUT_HIDDEN,
            Rejection::InputFailed(_) => &kinds::INPUT_FAILED,
            Rejection::TooManyInputs { .. } => &kinds::TOO_MANY_INPUTS,
            Rejection::PrerequisiteCompleted(_) => &kinds::PREREQUISITE_COMPLETED,
            Rejection::TooManyAttempts { .. } => &kinds::INVALID_REQUEST,
            Rejection::CascadeUnfinished(_) => &kinds::CASCADE_UNFINISHED,
            Rejection::StateChanged { .. } => &kinds::STATE_CHANGED,
            Rejection::StateFull { .. } => &kinds::STATE_FULL,
            Rejection::TooManyQueues { .. } => &kinds::TOO_MANY_QUEUES,
            Rejection::TooManyWaiting { .. } => &kinds::TOO_MANY_WAITING,
            Rejection::TooManyComponents { .. } => &kinds::TOO_MANY_COMPONENTS,
            Rejection::UnknownToken(_) => &kinds::TOKEN_NOT_FOUND,
            Rejection::TooManyTokens { .. } => &kinds::TOO_MANY_TOKENS,
            Rejection::TooManyOwned { .. } => &kinds::TOO_MANY_OWNED,
            Rejection::OutOfScope { .. } => &kinds::OUT_OF_SCOPE,
            Rejection::UnknownSchedule(_) => &kinds::SCHEDULE_NOT_FOUND,
            Rejection::ScheduleOwned { .. } => &kinds::SCHEDULE_OWNED,
            Rejection::ScheduleChanged(_) => &kinds::SCHEDULE_CHANGED,
            Rejection::TooManySchedules { .. } => &kinds::TOO_MANY_SCHEDULES,
            Rejection::UnknownLimit(_) | Rejection::NotLimited(_) => &kinds::LIMIT_NOT_FOUND,
            Rejection::LimitOwned { .. } => &kinds::LIMIT_OWNED,
            Rejection::TooManyLimits { .. } => &kinds::TOO_MANY_LIMITS,
            Rejection::LimitFull { .. } => &kinds::LIMIT_FULL,
            Rejection::TooManyLimitsOfJob { .. } => &kinds::TOO_MANY_LIMITS_OF_JOB,
            Rejection::LimitKeyTooLong { .. } => &kinds::LIMIT_KEY_TOO_LONG,
            Rejection::LimitUnits { .. } => &kinds::INVALID_LIMIT_UNITS,
            Rejection::UnknownBatch(_) => &kinds::BATCH_NOT_FOUND,
            Rejection::BatchClosed(_) => &kinds::BATCH_CLOSED,
            Rejection::BatchFull { .. } => &kinds::BATCH_FULL,
            Rejection::TooManyBatches { .. } => &kinds::TOO_MANY_BATCHES,
            Rejection::UnknownQueue(_) => &kinds::QUEUE_NOT_FOUND,
            Rejection::UnknownComponent(_) => &kinds::COMPONENT_NOT_FOUND,
            Rejection::UnknownRevision { .. } => &kinds::REVISION_NOT_FOUND,
            Rejection::HandlerOwned { .. } => &kinds::HANDLER_OWNED,
            Rejection::HandlerRemoved(_) => &kinds::HANDLER_NOT_FOUND,
            Rejection::ComponentInUse { .. } => &kinds::COMPONENT_IN_USE,
        };
        let problem = Problem::new(kind, rejection.to_string());
        Self(match rejection {
            Rejection::Terminal(state) | Rejection::WrongState(state) => {
                problem.with_state(State::as_str(state))
            }
            _ => problem,
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
            StoreError::Damaged { .. } => &kinds::STORE_DAMAGED,
        };
        tracing::error!(%error, "a request met a failure of the store");
        Self::new(kind, error.to_string())
    }
}
