//! Publishes the progress of jobs that run here to other nodes, and receives that of theirs. Nothing depends on
//! it: some may be lost.

use std::sync::Arc;
use std::time::Duration;

use host_engine::Others;
use host_engine::node::ChangeCounters;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

use super::CommitSignal;
use crate::Dispatch;

/// The least time between two writes, and between two reads.
const PAUSE: Duration = Duration::from_millis(250);

/// Publishes what is reported here to other nodes, as long as it is polled.
pub(super) async fn publish(
    others: Arc<dyn Others>,
    dispatch: Dispatch,
    commit_signal: CommitSignal,
    mut beats: watch::Receiver<(ChangeCounters, bool)>,
) {
    let live = &dispatch.shared().live;
    loop {
        // Others may live from now on, or the database may answer again.
        tokio::select! {
            () = live.changed() => {}
            changed = beats.changed() => if changed.is_err() {
                return;
            }
        }
        let has_others = beats.borrow_and_update().1;
        let unpublished = live.unpublished(has_others);
        if unpublished.reported.is_empty() && unpublished.over.is_empty() {
            continue;
        }
        match others
            .report(&unpublished.reported, &unpublished.over)
            .await
        {
            Ok(()) => commit_signal.notify(),
            Err(error) => {
                tracing::debug!(%error, "cannot publish progress; retrying");
                live.put_back(unpublished);
            }
        }
        sleep(PAUSE).await;
    }
}

/// Publishes what jobs of other nodes report, each time something may be new and there is a listener.
pub(super) async fn receive(
    others: Arc<dyn Others>,
    dispatch: Dispatch,
    woken: Arc<Notify>,
    beats: watch::Receiver<(ChangeCounters, bool)>,
) {
    let events = &dispatch.shared().events;
    loop {
        woken.notified().await;
        if !events.has_listeners() || !beats.borrow().1 {
            continue;
        }
        match others.reported().await {
            Ok(reported) => {
                for it in reported {
                    events.progressed(it.at, it.job, it.attempt, it.progress);
                }
            }
            Err(error) => {
                tracing::debug!(%error, "cannot read the progress of other nodes' jobs; retrying");
            }
        }
        sleep(PAUSE).await;
    }
}
