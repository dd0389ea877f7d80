//! The workers as executors: their names, the policy of their jobs, and their health.

use host_core::name::Name;
use host_core::policy::{OnGraceExpired, Policy};

use super::{Role, envelope};
use crate::arco::NAME;
use crate::wire::executors::{ExecutorHealth, Executors, WorkerHealth, WorkerState};

impl Executors for Role {
    fn names(&self) -> Vec<Name> {
        self.config.workers.keys().cloned().collect()
    }

    /// A worker that does not stop after a cancel may still be running. One that does not begin in time is
    /// given up like one that falls silent.
    fn policy(&self, _: &Name) -> Policy {
        let times = &self.config.times;
        Policy {
            cancel_grace_ms: Some(envelope::cancel_ms(times)),
            on_grace_expired: OnGraceExpired::Discarded,
            ack_window_ms: Some(times.heartbeat_timeout_ms),
            ..Policy::default()
        }
    }

    fn health(&self) -> Vec<ExecutorHealth> {
        let workers = self.config.workers.iter();
        let health = workers.map(|(name, worker)| {
            let hub = self.hub.get();
            let found = hub.and_then(|hub| hub.inspect(|session| session.worker(name)));
            let (answers, in_flight) = found.unwrap_or_default();
            let state = match (answers.is_down(), answers.has_answered) {
                (true, _) => WorkerState::Down,
                (false, true) => WorkerState::Up,
                (false, false) => WorkerState::Starting,
            };
            ExecutorHealth {
                name: name.clone(),
                wire: NAME,
                is_external: true,
                is_restartable: false,
                workers: vec![WorkerHealth {
                    address: Some(worker.url.to_string()),
                    in_flight,
                    failures: answers.failures,
                    reason: answers.reason,
                    ..WorkerHealth::new(name, 1, state)
                }],
            }
        });
        health.collect()
    }
}
