//! Tasks of workers whose connection has ended. The orchestrator may give such a task to any worker, so none
//! of ours asks before it has ended here.

use tokio::sync::watch;

/// Counts the tasks that are still ending. Clones share the count.
#[derive(Clone, Default)]
pub(super) struct Endings(watch::Sender<usize>);

/// A task that is still ending, until this is dropped.
pub(super) struct Ending(Endings);

impl Endings {
    /// Counts a task.
    pub(super) fn begin(&self) -> Ending {
        self.0.send_modify(|count| *count += 1);
        Ending(self.clone())
    }

    /// Waits until all have ended. Cancel safe.
    pub(super) async fn are_over(&self) {
        let mut count = self.0.subscribe();
        // It never fails, because `self` has the sender.
        let _ = count.wait_for(|count| *count == 0).await.is_ok();
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let Self(Endings(count)) = self;
        count.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt as _;

    use super::Endings;

    #[test]
    fn a_worker_waits_until_all_tasks_have_ended() {
        let endings = Endings::default();
        assert!(endings.are_over().now_or_never().is_some());
        let (first, second) = (endings.begin(), endings.clone().begin());
        let mut over = pin!(endings.are_over());
        assert!(over.as_mut().now_or_never().is_none());
        drop(first);
        assert!(over.as_mut().now_or_never().is_none());
        drop(second);
        assert!(over.now_or_never().is_some());
    }
}
