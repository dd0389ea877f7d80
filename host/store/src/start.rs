//! Finds ids by their first digits.

use host_core::id::JobId;

/// Returns the first and the last id that start with these digits. `None` if there is no such id.
pub(crate) fn ids(start: &str) -> Option<(JobId, JobId)> {
    let digits: String = start.chars().filter(|c| *c != '-').collect();
    let id = |filled: String| filled.parse::<JobId>().ok();
    let low = id(format!("{digits:0<32}"))?;
    let high = id(format!("{digits:f<32}"))?;
    Some((low, high))
}
