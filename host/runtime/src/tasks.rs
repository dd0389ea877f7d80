//! The only place that spawns tasks. Every task is joined at shutdown, or ends with its owner.

use std::future::Future;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The tasks of one host and the signal that stops them.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    stopping: CancellationToken,
}

impl Tasks {
    /// Runs `task` until it ends. It must end soon after [`Tasks::stopping`] is cancelled.
    #[expect(
        clippy::disallowed_methods,
        reason = "the only place that spawns tasks"
    )]
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(tokio::spawn(self.tracker.track_future(task)));
    }

    /// Returns the token that is cancelled when the host must stop.
    pub fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// Asks all tasks to end.
    pub fn stop(&self) {
        self.stopping.cancel();
    }

    /// Waits until every task has ended. Cancel safe.
    pub async fn join(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}

/// Tasks that end when their owner drops this group.
#[derive(Debug, Default)]
pub struct TaskGroup(JoinSet<()>);

impl TaskGroup {
    /// Runs `task` until it ends or the group is dropped.
    pub fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.0.spawn(task));
    }

    /// Waits until every task has ended. Cancel safe.
    pub async fn join(&mut self) {
        // A task that panicked has ended.
        while self.0.join_next().await.is_some() {}
    }
}
