//! The only spawn of the program: every task is known here and joined at shutdown, or ends with
//! those who have started it.

use std::future::Future;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The tasks of one host and the signal that ends them.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    stopping: CancellationToken,
}

impl Tasks {
    /// Runs `task` until it ends; it must end soon after [`Tasks::stopping`].
    #[expect(clippy::disallowed_methods, reason = "the home of tasks")]
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(tokio::spawn(self.tracker.track_future(task)));
    }

    /// Returns the signal that the host is to stop.
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

/// Tasks that end with their owner: dropped, it ends all of them.
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
