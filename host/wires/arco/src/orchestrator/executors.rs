//! The workers as the rest of the host knows them: names, the rules of their jobs, and how they are.

use std::sync::Arc;

use host_core::name::Name;
use host_wire_kit::executors::{
    ExecutorHealth, ExecutorRules, Executors, WorkerHealth, WorkerState,
};

use super::{Role, envelope};
use crate::NAME;

/// All workers of the role.
pub(crate) struct Remote(pub(crate) Arc<Role>);

impl Executors for Remote {
    fn names(&self) -> Vec<Name> {
        self.0.config.workers.keys().cloned().collect()
    }

    fn rules(&self) -> ExecutorRules {
        let times = &self.0.config.times;
        ExecutorRules {
            policy: envelope::policy(times),
            timeout_ms_max: Some(envelope::timeout_ms_max(times)),
            ..ExecutorRules::default()
        }
    }

    fn waits_because(&self, executor: &Name) -> Option<String> {
        let hub = self.0.hub.get()?;
        let (answers, _) = hub.inspect(|session| session.worker(executor))?;
        let reason = answers.reason.clone().filter(|_| answers.is_down())?;
        Some(format!("the worker {executor}/1 takes no jobs: {reason}"))
    }

    fn health(&self) -> Vec<ExecutorHealth> {
        let workers = self.0.config.workers.iter();
        let health = workers.map(|(name, worker)| {
            let hub = self.0.hub.get();
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
