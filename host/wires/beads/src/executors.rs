//! The workers of the socket as an executor of the host: its rules, and the state of its workers.

use std::sync::{Arc, OnceLock};

use host_core::name::Name;
use host_core::policy::Policy;
use host_wire_kit::executors::{ExecutorHealth, ExecutorRules, Executors};

use super::WIRE;
use super::leases::OrchestratorHub;
use super::orchestrator::Orchestrator;

/// The time limit of a job whose sender sets none, in milliseconds: a day. Workers are often tools that take
/// minutes, and the connection shows when one is gone.
const TIMEOUT_MS: u64 = 24 * 3_600_000;

/// The session, once it runs.
pub(super) type Serving = Arc<OnceLock<Arc<OrchestratorHub>>>;

/// The one executor.
pub(super) struct Pulled {
    pub(super) name: Name,
    pub(super) serving: Serving,
}

/// Returns the default rules of jobs.
pub(super) fn policy() -> Policy {
    Policy {
        timeout_ms: Some(TIMEOUT_MS),
        ..Policy::default()
    }
}

impl Executors for Pulled {
    fn names(&self) -> Vec<Name> {
        vec![self.name.clone()]
    }

    fn rules(&self) -> ExecutorRules {
        ExecutorRules {
            policy: policy(),
            ..ExecutorRules::default()
        }
    }

    fn health(&self) -> Vec<ExecutorHealth> {
        let hub = self.serving.get();
        vec![ExecutorHealth {
            name: self.name.clone(),
            wire: WIRE,
            is_external: true,
            is_restartable: false,
            workers: hub.map_or_else(Vec::new, |hub| hub.inspect(Orchestrator::health)),
        }]
    }
}
