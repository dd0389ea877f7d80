//! Executors of a wire that does not exist: two pools, and workers elsewhere that are known by the
//! start of their names.

use std::collections::BTreeSet;

use host_core::name::Name;
use host_core::policy::Policy;
use host_wire_kit::executors::{
    ExecutorHealth, ExecutorRules, Executors, NameLookup, NamedBy, RestartError, WorkerHealth,
    WorkerState,
};
use parking_lot::Mutex;

/// The names of pools and how many workers each has.
const POOLS: [(&str, usize); 2] = [("python", 2), ("ruby", 1)];

/// What the names of workers elsewhere start with, and how many there may be.
const FAR: &str = "far-";
const FAR_MAX: usize = 3;

/// The executors.
#[derive(Default)]
pub(super) struct Sample {
    far: Mutex<BTreeSet<Name>>,
    restarts: Mutex<usize>,
}

impl Sample {
    /// Returns how often an executor was restarted.
    pub(super) fn restarts(&self) -> usize {
        *self.restarts.lock()
    }
}

/// Returns the rules of jobs for them.
pub(super) fn policy() -> Policy {
    let mut policy = Policy::default();
    policy.backoff.base_ms = 5_000;
    policy
}

fn pool_size(name: &Name) -> Option<usize> {
    let mut pools = POOLS.iter();
    pools
        .find(|(pool, _)| *pool == name.as_str())
        .map(|(_, size)| *size)
}

fn worker(name: String, state: WorkerState, address: Option<&str>) -> WorkerHealth {
    let doing = name
        .starts_with(FAR)
        .then(|| "keeps itself busy".to_owned());
    WorkerHealth {
        name,
        state,
        address: address.map(str::to_owned),
        pid: None,
        in_flight: 0,
        failures: 0,
        reason: None,
        doing,
    }
}

impl Executors for Sample {
    fn names(&self) -> Vec<Name> {
        POOLS.map(|(name, _)| name.parse().unwrap()).to_vec()
    }

    fn find(&self, name: &Name, _: NamedBy) -> NameLookup {
        let mut far = self.far.lock();
        if pool_size(name).is_some() || far.contains(name) {
            NameLookup::Here
        } else if !name.as_str().starts_with(FAR) {
            NameLookup::Missing
        } else if far.len() == FAR_MAX {
            NameLookup::Full(FAR_MAX)
        } else {
            far.insert(name.clone());
            NameLookup::Here
        }
    }

    fn check(&self, executor: &Name, handler: &Name, params: &str) -> Result<(), String> {
        let needs_script = executor.as_str().starts_with(FAR) && handler.as_str() == "script";
        if needs_script && !params.contains("script") {
            return Err("params.script is missing".to_owned());
        }
        Ok(())
    }

    /// The pool `python` has a part for each zone; of zone `z` there is none.
    fn place(&self, executor: &Name, attributes: &[(String, String)]) -> Result<Name, String> {
        let mut attributes = attributes.iter();
        match attributes.find(|(key, _)| key == "zone") {
            Some((_, zone)) if zone == "z" => Err("zone: there is no zone z".to_owned()),
            Some((_, zone)) => Ok(format!("{executor}/{zone}").parse().unwrap()),
            None => Ok(executor.clone()),
        }
    }

    fn rules(&self) -> ExecutorRules {
        ExecutorRules {
            policy: policy(),
            timeout_ms_max: Some(7_200_000),
            ..ExecutorRules::default()
        }
    }

    fn health(&self) -> Vec<ExecutorHealth> {
        let executor = |name: Name, is_ours: bool, workers| ExecutorHealth {
            name,
            wire: "sample",
            is_external: !is_ours,
            is_restartable: is_ours,
            workers,
        };
        let pools = POOLS.map(|(name, size)| {
            let workers =
                (1..=size).map(|n| worker(format!("{name}/{n}"), WorkerState::Down, None));
            executor(name.parse().unwrap(), true, workers.collect())
        });
        let names = self.far.lock();
        let far = names.iter().map(|name| {
            let starting = WorkerState::Starting;
            let only = worker(name.to_string(), starting, Some("tcp://127.0.0.1:1"));
            executor(name.clone(), false, vec![only])
        });
        pools.into_iter().chain(far).collect()
    }

    fn restart(&self, executor: &Name, only: Option<usize>) -> Result<(), RestartError> {
        match (pool_size(executor), only) {
            (None, _) => Err(RestartError::NotOurs),
            (Some(size), Some(n)) if !(1..=size).contains(&n) => Err(RestartError::NoSuchWorker),
            (Some(_), _) => {
                *self.restarts.lock() += 1;
                Ok(())
            }
        }
    }
}
