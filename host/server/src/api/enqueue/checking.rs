//! Where the jobs of a request are read and their params checked. Most checks are short. Long ones
//! wait for each other, and end with their client.

use bytes::Bytes;
use host_api::new_job::NewJobBody;
use host_cells::compile::schema::{Budget, STEPS_MAX};
use host_core::job::{NewJob, Origin};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::entries::Entries;
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

/// How many long checks run concurrently.
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

/// Reads and checks the jobs of a request. If checking one takes long, or if another node may have its handler,
/// the rest follows later. `may` refuses jobs that the sender may not enqueue.
///
/// Cancel safe: a check whose client is gone ends soon.
pub(super) async fn jobs(
    shared: &Shared,
    origin: Option<Box<Origin>>,
    text: Bytes,
    is_array: bool,
    may: impl Fn(&NewJobBody) -> Result<(), ApiError> + Send + 'static,
) -> Result<Vec<NewJob>, ApiError> {
    let mut is_blocking = is_array || text.len() >= BLOCKING_BYTES_MIN;
    let steps = if is_blocking {
        STEPS_SHORT_BLOCKING
    } else {
        STEPS_SHORT
    };
    let mut budget = Budget::new(steps);
    let read = move |api: &Api| Entries::read(api, origin, &text, is_array, may);
    let mut entries = run(shared, is_blocking, read).await??;
    let (mut long, mut has_synced) = (None, false);
    loop {
        let accept = move |api: &Api| {
            let accepted = entries.accept(api, &mut budget);
            (entries, budget, accepted)
        };
        let accepted;
        (entries, budget, accepted) = run(shared, is_blocking, accept).await?;
        let Err(error) = accepted else {
            return Ok(entries.into_jobs());
        };
        if budget.is_spent() && long.is_none() {
            let turn = shared.long_checks.turn().await?;
            let (steps, waiting) = Budget::ending(STEPS_MAX);
            (long, budget, is_blocking) = (Some((turn, waiting)), steps, true);
        } else if error.kind() == &kinds::HANDLER_NOT_FOUND && !has_synced && sync(shared).await? {
            has_synced = true;
        } else {
            return Err(error);
        }
    }
}

/// Does a part of the work, on a thread for blocking work if it may take long.
async fn run<T: Send + 'static>(
    shared: &Shared,
    is_blocking: bool,
    part: impl FnOnce(&Api) -> T + Send + 'static,
) -> Result<T, ApiError> {
    if !is_blocking {
        return Ok(part(&shared.api));
    }
    let shared = Shared::clone(shared);
    let done = tokio::task::spawn_blocking(move || part(&shared.api));
    done.await.map_err(|_| ended_early())
}

/// Looks up the handlers and runners of other nodes. Returns false if there are no other nodes.
async fn sync(shared: &Shared) -> Result<bool, ApiError> {
    if !shared.api.deployer.sync().await {
        return Ok(false);
    }
    let nodes = shared.api.nodes.list().await?;
    shared
        .api
        .executors
        .record_nodes(shared.api.clock.now(), &nodes);
    Ok(true)
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
