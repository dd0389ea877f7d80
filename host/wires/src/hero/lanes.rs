//! The lanes to foreign Hero workers of one Redis: one for each worker id, named `hero-<worker id>`
//! and made when a job names it. The session talks to Redis.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use host_core::json::JsonText;
use host_core::name::Name;
use host_core::outcome::Outcome;
use host_core::port::{Assignment, End, Tag};
use host_runtime::ids;
use host_runtime::slots::{Pusher, Slots};

use super::config::DispatcherConfig;
use super::lane_states::LaneStates;
use super::orchestrator::Execution;
use super::session::DispatcherHandle;
use super::settings::HeroConfig;
use super::task::{SCRIPT, Task};
use crate::wire::ExecutorPorts;
use crate::wire::executors::{ExecutorHealth, ExecutorRules, Executors, Found};

/// The prefix of the worker id in a lane's name.
const LANE_PREFIX: &str = "hero-";

/// The most lanes. Each is kept until the host ends.
const LANES_MAX: usize = 256;

/// The grace period of a cancel that sets none, in milliseconds. Workers check for stops only at
/// intervals.
const GRACE_MS: u64 = 5_000;

/// Returns whether a name is the name of a lane.
pub(super) fn is_lane(name: &str) -> bool {
    worker_id(name).is_some()
}

fn worker_id(name: &str) -> Option<&str> {
    name.strip_prefix(LANE_PREFIX).filter(|id| !id.is_empty())
}

/// All lanes of one Redis.
pub(super) struct Lanes {
    dispatcher: DispatcherHandle,
    states: Arc<LaneStates>,
}

impl Lanes {
    /// Starts the session that sends jobs to Redis, where this host is known as `instance`. It ends
    /// with `ports.stopping`.
    pub(super) fn start(config: &HeroConfig, instance: &str, ports: &ExecutorPorts) -> Arc<Self> {
        let (lanes, dispatcher) = Self::new(config, instance, ports);
        let handle = lanes.dispatcher.clone();
        let (url, clock) = (config.url.clone(), Arc::clone(&ports.clock));
        ports
            .tasks
            .spawn(handle.run(dispatcher, url, clock, ports.stopping.clone()));
        lanes
    }

    fn new(
        config: &HeroConfig,
        instance: &str,
        ports: &ExecutorPorts,
    ) -> (Arc<Self>, DispatcherConfig) {
        let slots = Slots::new(Arc::clone(&ports.leases), GRACE_MS);
        let states = Arc::new(LaneStates::new(config, Arc::clone(&slots)));
        let dispatcher = DispatcherConfig {
            // Each lane has its own limit.
            in_flight_max: usize::MAX,
            ..DispatcherConfig::new(instance)
        };
        let lanes = Arc::new(Self {
            dispatcher: DispatcherHandle::new(Arc::clone(&states)),
            states,
        });
        slots.connect(Arc::downgrade(&lanes) as _);
        (lanes, dispatcher)
    }
}

impl Executors for Lanes {
    /// Lanes are not configured: each exists once a job names it.
    fn names(&self) -> Vec<Name> {
        Vec::new()
    }

    fn rules(&self) -> ExecutorRules {
        ExecutorRules {
            families: &[LANE_PREFIX],
            ..ExecutorRules::default()
        }
    }

    fn find(&self, name: &Name) -> Found {
        if !is_lane(name.as_str()) {
            Found::Nobody
        } else if self.states.add_below(LANES_MAX, name) {
            Found::Here
        } else {
            Found::Full(LANES_MAX)
        }
    }

    fn check(&self, _executor: &Name, handler: &Name, params: &str) -> Result<(), String> {
        if handler.as_str() != SCRIPT {
            return Ok(());
        }
        Task::of(SCRIPT.to_owned(), JsonText(params.to_owned())).map(drop)
    }

    fn open(&self, executor: &Name) -> bool {
        is_lane(executor.as_str()) && self.states.add_below(usize::MAX, executor)
    }

    fn health(&self) -> Vec<ExecutorHealth> {
        self.states.health()
    }
}

impl Pusher for Lanes {
    fn start(self: Arc<Self>, tag: Tag, lane: &Name, assignment: Assignment) {
        let worker_id = worker_id(lane.as_str()).unwrap_or_default();
        match Execution::of(assignment, worker_id, ids::uuid()) {
            Ok(execution) => self.dispatcher.start(tag, execution),
            Err(failure) => {
                let end = End::Outcome(Outcome::Failed(failure));
                self.states.ended(tag, end);
            }
        }
    }

    fn cancel(self: Arc<Self>, tag: Tag, grace_ms: u64) {
        self.dispatcher.cancel(tag, grace_ms);
    }

    fn recall(self: Arc<Self>) {
        self.dispatcher.drain();
    }
}
