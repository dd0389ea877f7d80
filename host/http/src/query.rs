//! Checks of the parameters of lists and waits, which are the same in every JSON API.

use std::time::Duration;

use host_core::query::PAGE_ITEMS_MAX;
use host_core::seconds::shown;

use crate::problem::{Problem, kinds};

/// How many items a page has if the request has no limit.
const PAGE_ITEMS: u32 = 100;

/// How long a request waits if it has no timeout, in seconds.
const WAIT_SECONDS: f64 = 30.0;

/// The longest wait of a request, in seconds.
const WAIT_SECONDS_MAX: f64 = 300.0;

/// Checks the `timeout_seconds` of a wait.
pub fn wait_timeout(asked: Option<f64>) -> Result<Duration, Problem> {
    let seconds = asked.unwrap_or(WAIT_SECONDS);
    if !(0.0..=WAIT_SECONDS_MAX).contains(&seconds) {
        let given = shown(seconds);
        let detail = format!("timeout_seconds: must be 0–{WAIT_SECONDS_MAX}, got {given}");
        return Err(Problem::new(&kinds::INVALID_QUERY, detail));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Checks the `cursor` of a list, the `next_cursor` of the page before.
pub fn cursor(given: Option<&str>) -> Result<Option<u64>, Problem> {
    let wrong = |_| {
        let detail = "cursor: must be a whole number";
        Problem::new(&kinds::INVALID_QUERY, detail)
    };
    given.map(|text| text.parse().map_err(wrong)).transpose()
}

/// Checks the `limit` of a list, the number of items that a page may have.
pub fn page_limit(asked: Option<u32>) -> Result<u32, Problem> {
    items("limit", asked, PAGE_ITEMS)
}

/// Checks the parameter with this name, in which a request says how many items it wants.
pub fn items(name: &str, asked: Option<u32>, default: u32) -> Result<u32, Problem> {
    let items = asked.unwrap_or(default);
    if items == 0 || items > PAGE_ITEMS_MAX {
        let detail = format!("{name}: must be 1–{PAGE_ITEMS_MAX}, got {items}");
        return Err(Problem::new(&kinds::INVALID_QUERY, detail));
    }
    Ok(items)
}
