//! Why jobs were discarded, as the API shows it: failures with the same cause together.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Which dead letters.
#[derive(Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct CausesQuery {
    /// Only jobs in this queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Only jobs for this handler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler: Option<String>,
    /// Only jobs that were enqueued at this instant or later (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Only the cause with this fingerprint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<String>,
}

/// Why jobs were discarded.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Causes)]
pub struct CausesView {
    /// The causes, those of the most jobs first: at most 100.
    pub items: Vec<CauseView>,
    /// How many jobs were examined, the newest first: at most 5,000.
    pub examined: u64,
    /// Whether these were all. If not, a cause may have more jobs than are counted.
    pub complete: bool,
}

/// What failures with the same cause have in common.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Cause)]
pub struct CauseView {
    /// The same for all of them; lists and changes of jobs take it as a filter.
    pub fingerprint: String,
    /// The handler.
    pub handler: String,
    /// The kind of failure; `docs/errors.md` explains all.
    pub kind: String,
    /// The handler's own name for the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_kind: Option<String>,
    /// The message, with a sign in place of numbers, ids and quotations.
    pub pattern: String,
    /// How many jobs.
    pub jobs: u64,
    /// When the first of them ended (RFC 3339).
    pub first_at: String,
    /// When the last one ended.
    pub last_at: String,
    /// The id of the newest.
    pub example: String,
}
