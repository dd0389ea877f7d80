//! Checks of the parameters of lists and waits, which are the same in every JSON API.

use std::time::Duration;

use host_core::query::PAGE_ITEMS_MAX;
use host_core::seconds::Seconds;

use crate::problem::{Problem, kinds};

/// How many items a page has if the request has no limit.
const PAGE_ITEMS: u32 = 100;

/// How long a request waits if it has no timeout, in milliseconds.
const WAIT_MS: u64 = 30_000;

/// The longest wait of a request, in milliseconds.
const WAIT_MS_MAX: u64 = 300_000;

/// Checks the `timeout_seconds` of a wait.
pub fn wait_timeout(asked: Option<Seconds>) -> Result<Duration, Problem> {
    let ms = asked.map_or(WAIT_MS, |timeout| timeout.ms);
    if ms > WAIT_MS_MAX {
        let most = WAIT_MS_MAX / 1000;
        let detail = format!(
            "timeout_seconds: must be 0–{most}, got {}",
            f64::from(Seconds { ms })
        );
        return Err(Problem::new(&kinds::INVALID_QUERY, detail));
    }
    Ok(Duration::from_millis(ms))
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
