//! Where the jobs of a request are read and their params checked. Most checks are short. Long ones
//! wait for each other, and end with their client.

use bytes::Bytes;
use host_cells::compile::schema::{Budget, STEPS_MAX};
use host_core::command::NewJob;
use host_http::json::{read as read_json, read_object};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{one, several};
use crate::api::error::ApiError;
use crate::api::problem::kinds;
use crate::api::{Api, Shared};

/// Requests of at least this size, in bytes, and all arrays are read on a thread for blocking work:
/// reading them would hold up other requests.
const BLOCKING_BYTES_MIN: usize = 16 << 10;

/// How many steps of checking hold up no other request.
const STEPS_SHORT: u64 = 5_000;

/// The same on a thread for blocking work.
const STEPS_SHORT_BLOCKING: u64 = 250_000;

/// How many long checks run at once.
const LONG_MAX: usize = 2;

/// The right to make a long check.
#[derive(Debug)]
pub(in crate::api) struct LongChecks(Semaphore);

impl Default for LongChecks {
    fn default() -> Self {
        Self(Semaphore::new(LONG_MAX))
    }
}

impl LongChecks {
    /// Waits for the right to make one long check.
    async fn turn(&self) -> Result<SemaphorePermit<'_>, ApiError> {
        self.0.acquire().await.map_err(|_| ended_early())
    }
}

/// Reads the jobs of a request.
///
/// Cancel safe: a check whose client is gone ends soon.
pub(super) async fn jobs(
    shared: &Shared,
    text: &Bytes,
    is_array: bool,
) -> Result<Vec<NewJob>, ApiError> {
    let is_blocking = is_array || text.len() >= BLOCKING_BYTES_MIN;
    let (read, budget) = if is_blocking {
        let budget = Budget::new(STEPS_SHORT_BLOCKING);
        blocking(shared, text, is_array, budget).await?
    } else {
        let mut budget = Budget::new(STEPS_SHORT);
        (read(&shared.api, text, is_array, &mut budget), budget)
    };
    if !budget.is_spent() {
        return read;
    }
    let _turn = shared.long_checks.turn().await?;
    let (budget, _waiting) = Budget::ending(STEPS_MAX);
    blocking(shared, text, is_array, budget).await?.0
}

async fn blocking(
    shared: &Shared,
    text: &Bytes,
    is_array: bool,
    mut budget: Budget,
) -> Result<(Result<Vec<NewJob>, ApiError>, Budget), ApiError> {
    let (shared, text) = (Shared::clone(shared), text.clone());
    let reading = tokio::task::spawn_blocking(move || {
        let read = read(&shared.api, &text, is_array, &mut budget);
        (read, budget)
    });
    reading.await.map_err(|_| ended_early())
}

fn read(
    api: &Api,
    text: &[u8],
    is_array: bool,
    budget: &mut Budget,
) -> Result<Vec<NewJob>, ApiError> {
    if is_array {
        several(api, read_json(text)?, budget)
    } else {
        one(api, read_object(text)?, budget)
    }
}

fn ended_early() -> ApiError {
    let detail = "the thread that read the jobs ended early";
    ApiError::new(&kinds::INTERNAL, detail)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn long_checks_wait_for_each_other() {
        let checks = LongChecks::default();
        let turn = || checks.turn().now_or_never();
        let mut running: Vec<_> = (0..LONG_MAX)
            .map(|_| checks.turn().now_or_never())
            .collect();
        assert!(running.iter().all(|turn| matches!(turn, Some(Ok(_)))));
        assert!(turn().is_none(), "it waits");
        running.pop();
        assert!(matches!(turn(), Some(Ok(_))), "one has ended");
    }
}
