//! The executors of all wires: their names, which jobs go to them, and their health. The dispatch
//! loop decides what work they get.

pub(crate) mod numbers;
mod pools;
mod remote;

use std::collections::BTreeMap;
use std::sync::Arc;

use host_core::name::Name;
use host_core::policy::Policy;
use host_core::time::Time;
use host_engine::node::{NodeRecord, Offer};
use host_http::json::nearest;
use host_wire_kit::executors::{self, ExecutorHealth, NamedBy, RestartError};

use self::numbers::Numbers;
use self::remote::RemoteExecutors;
use crate::metrics::Metrics;

/// Which jobs go to an executor without naming one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// The executor of each queue whose jobs all go to one, whatever their handler.
    pub queues: BTreeMap<Name, Name>,
    /// The executor for handlers that no component has.
    pub default: Option<Name>,
}

/// All executors. Cloning shares them.
#[derive(Clone, Default)]
pub struct Executors {
    of_wires: Arc<Vec<Arc<dyn executors::Executors>>>,
    routes: Arc<Routes>,
    numbers: Numbers,
    remote: RemoteExecutors,
}

/// The result of a search for an executor by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecutorLookup {
    /// A wire has this executor, here or at another node.
    Executor(Name),
    /// No wire has an executor with this name.
    Unknown,
    /// One more executor would exceed this limit.
    Full(usize),
}

/// Explains that no live node has a runner, and which node had it `last`.
pub(crate) fn explain_unavailable(runner: &str, last: Option<&str>) -> String {
    let missing = format!("no live node has the runner {runner:?}");
    match last {
        Some(node) => format!("{missing}; the node {node} had it last"),
        None => missing,
    }
}

impl Executors {
    /// Combines the executors of all wires.
    pub fn new(of_wires: Vec<Arc<dyn executors::Executors>>, routes: Routes) -> Self {
        let executors = Self {
            of_wires: Arc::new(of_wires),
            routes: Arc::new(routes),
            numbers: Numbers::default(),
            remote: RemoteExecutors::default(),
        };
        for name in executors.routed() {
            // This makes `health` list the executor before its first job.
            let _ = executors.find(name.as_str());
        }
        executors
    }

    fn routed(&self) -> impl Iterator<Item = &Name> {
        self.routes.queues.values().chain(&self.routes.default)
    }

    /// Finds the executor with this name for a job that is about to be accepted.
    pub fn find(&self, name: &str) -> ExecutorLookup {
        let Ok(name) = name.parse::<Name>() else {
            return ExecutorLookup::Unknown;
        };
        for wire in self.of_wires.iter() {
            match wire.find(&name, NamedBy::NewJob) {
                executors::NameLookup::Here => return ExecutorLookup::Executor(name),
                executors::NameLookup::Full(most) => return ExecutorLookup::Full(most),
                executors::NameLookup::Missing => {}
            }
        }
        if self.remote.has(&name) {
            return ExecutorLookup::Executor(name);
        }
        ExecutorLookup::Unknown
    }

    /// Explains that nothing executes the jobs of an executor with this name.
    pub(crate) fn explain_unknown(&self, name: &str) -> String {
        let shown: String = name.chars().take(64).collect();
        let others = self.remote.names();
        if let Some(node) = self.remote.last_node_of(name) {
            return explain_unavailable(&shown, Some(&node));
        }
        let own = self.names();
        let known = own.iter().map(Name::as_str);
        let remote = others.iter().flatten().map(String::as_str);
        let candidate = nearest(name, known.chain(remote));
        let near = candidate.map(|candidate| format!("; did you mean {candidate}?"));
        let missing = match others {
            Some(_) => explain_unavailable(&shown, None),
            None => format!("no runner is named {shown:?}"),
        };
        format!("{missing}{}", near.unwrap_or_default())
    }

    /// Returns whether this host has an executor.
    pub fn has(&self, name: &Name) -> bool {
        self.wire_of(name).is_some()
    }

    /// Returns the executors for which other nodes may accept jobs.
    pub fn offers(&self) -> Vec<Offer> {
        let of_wire = |wire: &Arc<dyn executors::Executors>| {
            let rules = wire.rules();
            let placed_by: Vec<String> = rules
                .placed_by
                .iter()
                .map(|key| (*key).to_owned())
                .collect();
            let names = wire.names().into_iter().map(|name| (name.into(), false));
            let families = rules.families.iter().map(|name| ((*name).to_owned(), true));
            let offers = names.chain(families).map(|(name, is_family)| Offer {
                name,
                is_family,
                placed_by: placed_by.clone(),
                policy: rules.policy.clone(),
                timeout_ms_max: rules.timeout_ms_max,
            });
            offers.collect::<Vec<_>>()
        };
        self.of_wires.iter().flat_map(of_wire).collect()
    }

    /// Records the executors of the nodes.
    pub(crate) fn record_nodes(&self, now: Time, nodes: &[NodeRecord]) {
        self.remote.record_nodes(now, nodes);
    }

    /// Forgets executors of nodes that were last seen long ago.
    pub(crate) fn forget_old(&self, now: Time) {
        self.remote.forget_old(now);
    }

    fn wire_of(&self, name: &Name) -> Option<&Arc<dyn executors::Executors>> {
        let mut wires = self.of_wires.iter();
        wires.find(|wire| wire.find(name, NamedBy::NewJob) == executors::NameLookup::Here)
    }

    /// Returns whether this host has the executor of a job in the store, and gets ready for its jobs.
    pub(crate) fn has_kept(&self, name: &Name) -> bool {
        let mut wires = self.of_wires.iter();
        wires.any(|wire| wire.find(name, NamedBy::KeptJob) == executors::NameLookup::Here)
    }

    /// Checks whether an executor accepts `params`, a JSON object, for this handler. The error is for users.
    pub fn check(&self, executor: &Name, handler: &Name, params: &str) -> Result<(), String> {
        self.wire_of(executor)
            .map_or(Ok(()), |wire| wire.check(executor, handler, params))
    }

    /// Returns the lane of an executor for a job with these attributes. The error is for users.
    pub fn place(&self, executor: &Name, attributes: &[(String, String)]) -> Result<Name, String> {
        match self.wire_of(executor) {
            Some(wire) => wire.place(executor, attributes),
            None => self.remote.place(executor, attributes),
        }
    }

    /// Returns the policy of jobs for an executor whose sender sets none.
    pub fn policy(&self, executor: &Name) -> Policy {
        match self.wire_of(executor) {
            Some(wire) => wire.rules().policy,
            None => self.remote.policy(executor).unwrap_or_default(),
        }
    }

    /// Explains why the jobs of an executor of this host wait, if that is known.
    pub fn waits_because(&self, executor: &Name) -> Option<String> {
        self.wire_of(executor)?.waits_because(executor)
    }

    /// Returns the longest time limit of a job for an executor, in milliseconds; `None` if any is possible.
    pub fn timeout_ms_max(&self, executor: &Name) -> Option<u64> {
        match self.wire_of(executor) {
            Some(wire) => wire.rules().timeout_ms_max,
            None => self.remote.timeout_ms_max(executor),
        }
    }

    /// Returns the names of the configured executors.
    pub fn names(&self) -> Vec<Name> {
        self.of_wires.iter().flat_map(|wire| wire.names()).collect()
    }

    /// Returns the executor for the jobs of a queue.
    pub fn of_queue(&self, queue: &Name) -> Option<&Name> {
        self.routes.queues.get(queue)
    }

    /// Returns the queues whose jobs go to an executor.
    pub(crate) fn queues_of(&self, executor: &Name) -> Vec<Name> {
        let queues = self.routes.queues.iter();
        queues
            .filter(|(_, name)| *name == executor)
            .map(|(queue, _)| queue.clone())
            .collect()
    }

    /// Returns the executor for handlers that no component has.
    pub fn default_executor(&self) -> Option<&Name> {
        self.routes.default.as_ref()
    }

    /// Returns the health of all executors, by name.
    pub fn health(&self) -> Vec<ExecutorHealth> {
        let mut all: Vec<_> = self
            .of_wires
            .iter()
            .flat_map(|wire| wire.health())
            .collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Restarts the workers of an executor, or only one of them, counted from 1. Each restarts when
    /// its attempts have ended.
    pub fn restart(&self, name: &Name, only: Option<usize>) -> Result<(), RestartError> {
        self.wire_of(name)
            .map_or(Err(RestartError::NoSuchWorker), |wire| {
                wire.restart(name, only)
            })
    }

    /// Adds the executors to `/metrics`.
    pub fn register(&self, metrics: &Metrics) {
        metrics.register(|registry| self.numbers.register(registry));
    }

    /// Updates the number of workers for `/metrics`.
    pub(crate) fn count(&self) {
        for executor in self.health() {
            self.numbers.set(&executor);
        }
    }
}
