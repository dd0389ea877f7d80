//! How a worker answers dispatches. While it cannot be reached, one lane goes on trying.

use tokio::sync::watch;

/// A worker counts as down after this many failed dispatches in a row.
const FAILURES_UNTIL_DOWN: u32 = 3;

/// What is known of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answers {
    /// Whether it has ever answered.
    pub(super) has_answered: bool,
    /// How many dispatches in a row failed.
    pub(super) failures: u32,
    /// Why the last one failed.
    pub(super) reason: Option<String>,
}

impl Answers {
    pub(super) fn is_down(&self) -> bool {
        self.failures >= FAILURES_UNTIL_DOWN
    }
}

/// How one worker is. Shared by its lanes.
#[derive(Debug, Default)]
pub(super) struct Health(watch::Sender<Answers>);

impl Health {
    /// It took a dispatch, asked to come again, or called back.
    pub(super) fn answered(&self) {
        self.0.send_if_modified(|answers| {
            let is_new = !answers.has_answered || answers.failures > 0;
            answers.has_answered = true;
            answers.failures = 0;
            answers.reason = None;
            is_new
        });
    }

    pub(super) fn failed(&self, reason: String) {
        self.0.send_modify(|answers| {
            answers.failures = answers.failures.saturating_add(1);
            answers.reason = Some(reason);
        });
    }

    pub(super) fn get(&self) -> Answers {
        self.0.borrow().clone()
    }

    /// Waits until the worker is not down.
    pub(super) async fn until_up(&self) {
        let mut watched = self.0.subscribe();
        // The sender lives as long as this.
        let _up = watched.wait_for(|answers| !answers.is_down()).await;
    }

    /// Waits until a dispatch has failed.
    #[cfg(test)]
    pub(super) async fn until_failed(&self) {
        let mut watched = self.0.subscribe();
        watched
            .wait_for(|answers| answers.failures > 0)
            .await
            .unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_down_after_some_failures_in_a_row() {
        let health = Health::default();
        for _ in 1..FAILURES_UNTIL_DOWN {
            health.failed("no".to_owned());
        }
        assert!(!health.get().is_down());
        health.failed("nothing listens".to_owned());
        assert!(health.get().is_down());
        assert_eq!(health.get().reason.as_deref(), Some("nothing listens"));
        health.answered();
        let answers = Answers {
            has_answered: true,
            ..Answers::default()
        };
        assert_eq!(health.get(), answers);
    }
}
