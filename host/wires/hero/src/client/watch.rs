//! Checks the jobs that wait for others regularly, and logs the results. Decides nothing.

use std::sync::Arc;

use host_core::port::Clock;
use host_runtime::backoff::Backoff;
use tokio_util::sync::CancellationToken;

use super::live::Client;

/// How often they are checked, in milliseconds.
const CHECK_MS: u64 = 250;

/// The longest wait after failed checks, in milliseconds.
const CHECK_MS_MAX: u64 = 8_000;

/// Queues waiting jobs when the jobs they wait for have finished, until `stopping`.
pub(crate) async fn watch(client: Client, clock: Arc<dyn Clock>, stopping: CancellationToken) {
    let mut backoff = Backoff::new(CHECK_MS, CHECK_MS_MAX);
    let (mut is_away, mut is_refused) = (false, false);
    let mut check = async || {
        tokio::time::sleep(backoff.next_wait()).await;
        match client.gate(clock.wall()).await {
            Ok(turn) => {
                backoff.reset();
                is_away = false;
                let was_refused = std::mem::replace(&mut is_refused, turn.refused.is_some());
                if let Some(why) = turn.refused.filter(|_| !was_refused) {
                    tracing::warn!(
                        why,
                        "Redis refuses to queue or end a Hero job that waited for others; retrying"
                    );
                }
                if turn.queued + turn.ended > 0 {
                    let (queued, ended) = (turn.queued, turn.ended);
                    tracing::info!(
                        queued,
                        ended,
                        "Hero jobs that waited for others are queued or ended"
                    );
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut is_away, true) {
                    let why = error.to_string();
                    tracing::warn!(why, "cannot check Hero jobs that wait for others; retrying");
                }
            }
        }
    };
    while stopping.run_until_cancelled(check()).await.is_some() {}
}
