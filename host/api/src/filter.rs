//! Which jobs, and which lines of a log, a request is about.

use host_core::job::State;
use host_core::query::Order;
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use crate::words::{JobState, ListOrder};

/// Which jobs. A job must match every parameter that is given.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct FilterQuery {
    /// A filter in the syntax of the dashboard: `state:discarded queue:mail since:2h refused`. A word without a key must occur in a
    /// job's names, attributes, params or failure. Only here may there be several attributes, params and words. Further
    /// parameters add to it.
    pub q: Option<String>,
    /// Only jobs in this queue.
    pub queue: Option<String>,
    /// Only jobs for this handler; `python#send_email` is one of a foreign runner. `*` matches any characters.
    pub handler: Option<String>,
    /// Only jobs that were enqueued at this instant or later (RFC 3339).
    pub since: Option<String>,
    /// Only jobs that were enqueued before this instant (RFC 3339).
    pub until: Option<String>,
    /// Only jobs whose id starts with this prefix.
    pub id: Option<String>,
    /// Only jobs whose latest attempt did not complete for this reason, such as `timed_out`. Any other
    /// word is a handler's own name for an error, `user_kind` of a failure.
    pub failure: Option<String>,
    /// Only jobs that came in over this wire; `http` is this API.
    pub wire: Option<String>,
    /// Only jobs with this unique key.
    pub unique_key: Option<String>,
    /// Only jobs with this attribute, as `KEY=VALUE`.
    pub attribute: Option<String>,
    /// Only jobs whose params have this value, as `KEY=VALUE`; dots separate nested keys: `order.id=77`.
    pub param: Option<String>,
    /// Only jobs that failed for this cause: a `fingerprint` of the list of failures.
    pub fingerprint: Option<String>,
    /// Only jobs that this batch counts.
    pub batch: Option<String>,
    /// Only jobs in this state.
    #[param(value_type = Option<JobState>)]
    pub state: Option<State>,
    /// `newest` or `oldest` first; `newest` if absent.
    #[param(value_type = Option<ListOrder>, inline)]
    pub sort: Option<Order>,
    /// At most this many, 1 to 1,000; 100 if absent.
    #[param(minimum = 1, maximum = 1_000)]
    pub limit: Option<u32>,
    /// The `next_cursor` of the answer before.
    #[param(value_type = Option<u64>)]
    pub cursor: Option<String>,
}

/// Which page of a list whose items are numbered.
#[derive(Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct PageQuery {
    /// At most this many, 1 to 1,000; 100 if absent.
    #[param(minimum = 1, maximum = 1_000)]
    pub limit: Option<u32>,
    /// Items behind the one with this number: a `next_cursor`, or the last one seen, to follow the list.
    #[param(value_type = Option<u64>)]
    pub cursor: Option<String>,
}
