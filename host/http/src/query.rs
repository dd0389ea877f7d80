//! Parameters and answers of lists and waits, which are the same in every JSON API.

use std::time::Duration;

use host_core::query::PAGE_ITEMS_MAX;
use host_core::seconds::Seconds;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::problem::{Problem, kinds};

/// How many items a page has if the request has no limit.
const PAGE_ITEMS: u32 = 100;

/// How long a request waits if it has no timeout, in milliseconds.
const WAIT_MS: u64 = 30_000;

/// The longest wait of a request, in milliseconds.
const WAIT_MS_MAX: u64 = 300_000;

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub struct PageView<T> {
    /// The items; a page may have fewer than the limit although more follow.
    pub items: Vec<T>,
    /// The `cursor` for the next page; `null` at the end.
    pub next_cursor: Option<String>,
}

impl<T> PageView<T> {
    /// Makes the only page of a list.
    pub fn all(items: Vec<T>) -> Self {
        Self {
            items,
            next_cursor: None,
        }
    }
}

/// How long to wait.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct WaitQuery {
    /// At most 300; 30 if absent.
    #[param(value_type = Option<f64>)]
    timeout_seconds: Option<Seconds>,
}

impl WaitQuery {
    /// Returns how long to wait.
    pub fn timeout(&self) -> Result<Duration, Problem> {
        let ms = self.timeout_seconds.map_or(WAIT_MS, |timeout| timeout.ms);
        if ms > WAIT_MS_MAX {
            let detail = format!("timeout_seconds: must be at most {}", WAIT_MS_MAX / 1000);
            return Err(Problem::new(&kinds::INVALID_QUERY, detail));
        }
        Ok(Duration::from_millis(ms))
    }
}

/// Checks the `limit` of a list, the number of items that a page may have.
pub fn page_limit(asked: Option<u32>) -> Result<u32, Problem> {
    let limit = asked.unwrap_or(PAGE_ITEMS);
    if limit == 0 || limit > PAGE_ITEMS_MAX {
        let detail = format!("limit: must be 1–{PAGE_ITEMS_MAX}, got {limit}");
        return Err(Problem::new(&kinds::INVALID_QUERY, detail));
    }
    Ok(limit)
}
