//! The filter of the page of jobs, as the address has it.

use host_api::filter_text::{self, Filter};
use host_core::time::Time;
use serde::{Deserialize, Serialize};

use crate::same::with_query;

/// Which jobs a page shows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct JobListQuery {
    /// The filter as text.
    #[serde(default)]
    pub(crate) q: String,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cursor: Option<String>,
    /// Set if the page reloads itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) live: Option<String>,
}

impl JobListQuery {
    /// Shows the first page of a filter.
    pub(crate) fn new(q: impl Into<String>) -> Self {
        Self {
            q: q.into(),
            ..Self::default()
        }
    }

    /// Reads the filter. The error says what is wrong with it.
    pub(crate) fn filter(&self, now: Time) -> Result<Filter, String> {
        filter_text::parse(&self.q, now)
    }

    /// Returns the address of the page.
    pub(crate) fn address(&self) -> String {
        with_query("/jobs", self)
    }
}

/// Returns the address of the page of jobs that match a filter.
pub(crate) fn jobs(q: impl Into<String>) -> String {
    JobListQuery::new(q).address()
}
