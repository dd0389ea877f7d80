//! The only spawn of the server: every task is known here and joined at shutdown.

use std::future::Future;

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
