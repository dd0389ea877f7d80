//! The pools of foreign runners as executors whose workers pull, those that this host starts among them.

use host_core::name::Name;
use host_wire_kit::executors::{
    ExecutorHealth, ExecutorRules, Executors, NameLookup, NamedBy, WorkerHealth, WorkerState,
};

use super::{Pools, worker};
use crate::NAME;
use crate::settings::PoolConfig;
use crate::tags::{self, REQUIRES};

impl Executors for Pools {
    fn names(&self) -> Vec<Name> {
        let pools = self.config.pools.iter();
        pools.map(|pool| pool.name.clone()).collect()
    }

    fn find(&self, name: &Name, _: NamedBy) -> NameLookup {
        self.find_lane(name)
    }

    fn rules(&self) -> ExecutorRules {
        ExecutorRules {
            placed_by: &[REQUIRES],
            policy: self.config.times.policy(),
            ..ExecutorRules::default()
        }
    }

    fn place(&self, executor: &Name, attributes: &[(String, String)]) -> Result<Name, String> {
        let Some((_, more)) = attributes.iter().find(|(key, _)| key == REQUIRES) else {
            return Ok(executor.clone());
        };
        let mut parts = executor.as_str().split(tags::SEPARATOR);
        let pool = parts
            .next()
            .unwrap_or_default()
            .parse()
            .map_err(|_| format!("{REQUIRES}: {executor} is not a Delta pool"))?;
        let asked: Vec<&str> = parts.chain([more.as_str()]).collect();
        let lane = tags::lane(&pool, &asked.join(","))?;
        match self.find_lane(&lane) {
            NameLookup::Here => Ok(lane),
            NameLookup::Missing => Err(format!("{REQUIRES}: {pool} is not a Delta pool")),
            NameLookup::Full(most) => Err(format!(
                "{REQUIRES}: too many combinations of tags: at most {most} since the host started"
            )),
        }
    }

    fn waits_because(&self, executor: &Name) -> Option<String> {
        self.why_waiting(executor)
    }

    fn health(&self) -> Vec<ExecutorHealth> {
        let health = |pool: &PoolConfig| ExecutorHealth {
            workers: self.worker_health(&pool.name),
            name: pool.name.clone(),
            wire: NAME,
            is_external: pool.launch.is_none(),
            is_restartable: false,
        };
        self.config.pools.iter().map(health).collect()
    }
}

impl Pools {
    fn worker_health(&self, pool: &Name) -> Vec<WorkerHealth> {
        let mut others = self.workers(pool);
        let mut all = self.slots.health(pool);
        for (number, own) in (1..).zip(&mut all) {
            own.name = worker(pool, &self.runner_id(number));
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
