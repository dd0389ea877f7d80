//! The pools of foreign runners as executors whose workers pull, those that this host starts among them.

use std::sync::Arc;

use host_core::name::Name;
use host_core::policy::Policy;

use super::NAME;
use super::orchestrator::Orchestrator;
use super::section::PoolConfig;
use super::tags::{self, REQUIRES};
use crate::wire::executors::{ExecutorHealth, Executors, Found, WorkerHealth, WorkerState};

/// All pools.
pub(super) struct Pools(pub(super) Arc<Orchestrator>);

impl Executors for Pools {
    fn names(&self) -> Vec<Name> {
        let pools = self.0.config.pools.iter();
        pools.map(|pool| pool.name.clone()).collect()
    }

    fn find(&self, name: &Name) -> Found {
        self.0.find_lane(name)
    }

    fn placed_by(&self) -> &'static [&'static str] {
        &[REQUIRES]
    }

    fn place(&self, executor: &Name, attributes: &[(String, String)]) -> Result<Name, String> {
        let Some((_, more)) = attributes.iter().find(|(key, _)| key == REQUIRES) else {
            return Ok(executor.clone());
        };
        let mut parts = executor.as_str().split(tags::SEPARATOR);
        let pool = parts.next().unwrap_or_default().parse();
        let pool = pool.map_err(|_| format!("{REQUIRES}: {executor} is not a Delta pool"))?;
        let asked: Vec<&str> = parts.chain([more.as_str()]).collect();
        let lane = tags::lane(&pool, &asked.join(","))?;
        match self.0.find_lane(&lane) {
            Found::Here => Ok(lane),
            Found::Nobody => Err(format!("{REQUIRES}: {pool} is not a Delta pool")),
            Found::Full(most) => Err(format!(
                "{REQUIRES}: {most} combinations of tags were asked for since the host started, and \
                 this one is new"
            )),
        }
    }

    fn policy(&self, _: &Name) -> Policy {
        self.0.config.times.policy()
    }

    fn health(&self) -> Vec<ExecutorHealth> {
        let health = |pool: &PoolConfig| ExecutorHealth {
            workers: self.workers(&pool.name),
            name: pool.name.clone(),
            wire: NAME,
            is_external: pool.launch.is_none(),
            is_restartable: false,
        };
        self.0.config.pools.iter().map(health).collect()
    }
}

impl Pools {
    fn workers(&self, pool: &Name) -> Vec<WorkerHealth> {
        let mut others = self.0.workers(pool);
        let mut all = self.0.slots.health(pool);
        for own in &mut all {
            own.in_flight = others.remove(&own.name).unwrap_or_default();
        }
        all.extend(others.into_iter().map(|(name, in_flight)| WorkerHealth {
            name,
            in_flight,
            ..WorkerHealth::new(pool, 1, WorkerState::Up)
        }));
        all
    }
}
