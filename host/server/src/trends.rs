//! Notes how many jobs wait, minute by minute, for the trends of the dispatch loop's numbers.

use std::time::Duration;

use host_core::job::{STATES, State};
use host_core::query::QueueStatus;
use host_dispatch::Dispatch;
use host_dispatch::numbers::Numbers;
use host_runtime::clock::Clock;
use tokio_util::sync::CancellationToken;

/// How often they are counted. The store has counters, so this costs one short read.
const EVERY: Duration = Duration::from_secs(30);

/// Counts until `stopping`.
pub(crate) async fn run(
    dispatch: Dispatch,
    numbers: Numbers,
    clock: Clock,
    stopping: CancellationToken,
) {
    loop {
        if let Ok(queues) = dispatch.read(|reader| reader.queues()).await {
            numbers.waiting(clock.now(), waiting(&queues));
        }
        let pause = tokio::time::sleep(EVERY);
        if stopping.run_until_cancelled(pause).await.is_none() {
            return;
        }
    }
}

fn waiting(queues: &[QueueStatus]) -> u64 {
    let available = STATES.iter().position(|state| *state == State::Available);
    let counts = queues
        .iter()
        .filter_map(|queue| queue.counts.get(available?));
    counts.sum()
}
