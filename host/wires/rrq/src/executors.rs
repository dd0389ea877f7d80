//! The pools of runners as executors of the host: finds, checks, restarts and shows them.

use std::collections::BTreeMap;

use host_core::name::Name;
use host_wire_kit::ExecutorPorts;
use host_wire_kit::executors::{ExecutorHealth, ExecutorRules, Executors, RestartError};

use super::WIRE;
use super::config::{PoolConfig, policy};
use super::pool::{PoolPorts, RunnerPool};

pub(super) struct Pools(BTreeMap<Name, RunnerPool>);

impl Pools {
    /// Starts all runners. They end with `ports.stopping`.
    pub(super) fn start(configs: &BTreeMap<Name, PoolConfig>, ports: &ExecutorPorts) -> Self {
        let pool = |(name, config): (&Name, &PoolConfig)| {
            let own_ports = PoolPorts {
                leases: ports.leases.clone(),
                logs: ports.logs.clone(),
                clock: ports.clock.clone(),
                counters: ports.counters.clone(),
            };
            let pool = RunnerPool::new(config.clone(), own_ports);
            let running = pool.clone().run(ports.stopping.clone());
            let name = name.clone();
            ports.tasks.spawn({
                let name = name.clone();
                async move {
                    if let Err(error) = running.await {
                        tracing::error!(runner = %name, %error, "cannot start the runners of a pool");
                    }
                }
            });
            (name, pool)
        };
        Self(configs.iter().map(pool).collect())
    }
}

impl Executors for Pools {
    fn names(&self) -> Vec<Name> {
        self.0.keys().cloned().collect()
    }

    fn rules(&self) -> ExecutorRules {
        ExecutorRules {
            policy: policy(),
            ..ExecutorRules::default()
        }
    }

    fn health(&self) -> Vec<ExecutorHealth> {
        let health = |(name, pool): (&Name, &RunnerPool)| ExecutorHealth {
            name: name.clone(),
            wire: WIRE,
            is_external: pool.is_external(),
            is_restartable: true,
            workers: pool.health(),
        };
        self.0.iter().map(health).collect()
    }

    fn restart(&self, executor: &Name, only: Option<usize>) -> Result<(), RestartError> {
        let pool = self.0.get(executor).ok_or(RestartError::NoSuchWorker)?;
        let mut runners = pool.runners();
        if let Some(number) = only {
            runners.retain(|runner| runner + 1 == number);
            if runners.is_empty() {
                return Err(RestartError::NoSuchWorker);
            }
        }
        for runner in runners {
            pool.restart(runner);
        }
        Ok(())
    }
}
