//! The pools of foreign runners that execute our jobs, and the lanes to workers of other wires:
//! which there are, which jobs are theirs, how they are. What they are given is the dispatch loop's matter (`dispatch/runners.rs`).

mod inbox;
mod lanes;
mod lines;
mod numbers;
mod office;

use std::collections::BTreeMap;
use std::sync::Arc;

use host_core::name::Name;
use host_core::policy::Policy;
use host_core::port::{Clock, Counters, Tag};
use host_protocols::rrq::{self, PoolPorts, RunnerConfig, RunnerPool, SeatHealth};
use host_core::port::{Assignment, SeatState};
use tokio_util::sync::CancellationToken;

use self::lanes::Lanes;
use self::lines::Lines;
use self::numbers::Numbers;
use self::office::Office;
use host_dispatch::logged::Logs;
use host_dispatch::runners::RunnerPort;
use crate::metrics::Metrics;
use host_runtime::tasks::Tasks;

pub use self::inbox::{Inbox, News, Over};
pub use self::lanes::{LANE_PREFIX, LANES_MAX, LanesConfig, is_lane};

/// Which runners there are, and which jobs are theirs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunnersConfig {
    /// All pools, by name.
    pub pools: BTreeMap<Name, RunnerConfig>,
    /// The queues whose jobs go to a pool, whatever their handler.
    pub queues: BTreeMap<Name, Name>,
    /// The pool for handlers that nobody else has.
    pub default: Option<Name>,
}

/// What pools need of the host.
pub struct Ports {
    /// Tells host time.
    pub clock: Arc<dyn Clock>,
    /// Counts what is refused.
    pub counters: Arc<dyn Counters>,
    /// Where jobs' logs go.
    pub logs: Logs,
}

/// All pools and lanes. Cloning shares them.
#[derive(Clone)]
pub struct Runners {
    pools: Arc<BTreeMap<Name, Pool>>,
    lanes: Option<Lanes>,
    queues: Arc<BTreeMap<Name, Name>>,
    default: Option<Name>,
    inbox: Arc<Inbox>,
    numbers: Numbers,
}

/// One pool and the host's side of it.
struct Pool {
    pool: RunnerPool,
    office: Arc<Office>,
}

/// One pool, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolHealth {
    /// Its name: what stands before `#`.
    pub name: Name,
    /// The wire it speaks.
    pub wire: &'static str,
    /// Whether somebody else starts its runner.
    pub is_external: bool,
    /// The queues whose jobs go to it.
    pub queues: Vec<Name>,
    /// Whether it has the handlers that nobody else has.
    pub is_default: bool,
    /// Its runners.
    pub runners: Vec<RunnerHealth>,
}

/// One runner, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunnerHealth {
    /// Its name in attempts: `python/1`.
    pub executor: String,
    /// Where it is in its life.
    pub state: SeatState,
    /// Where it listens, or takes its jobs.
    pub address: Option<String>,
    /// Its process, if we started it.
    pub pid: Option<u32>,
    /// Attempts in flight.
    pub in_flight: usize,
    /// How often in a row it failed.
    pub failures: u32,
    /// Why it takes no work, if that is known.
    pub reason: Option<String>,
}

impl From<SeatHealth> for RunnerHealth {
    fn from(seat: SeatHealth) -> Self {
        Self {
            executor: seat.executor,
            state: seat.state,
            address: seat.address.map(|address| address.to_string()),
            pid: seat.pid,
            in_flight: seat.in_flight,
            failures: seat.failures,
            reason: seat.reason,
        }
    }
}

/// What became of the search for a runner by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// There it is.
    Runner(Name),
    /// Nobody has this name.
    Nobody,
    /// It would be one lane too many.
    Full,
}

impl Runners {
    /// Makes the pools and the lanes; nothing starts before [`Runners::run`].
    pub fn new(config: RunnersConfig, hero: Option<LanesConfig>, ports: &Ports) -> Self {
        let inbox = Arc::new(Inbox::default());
        let hero =
            hero.map(|config| Lanes::new(config, Arc::clone(&ports.clock), Arc::clone(&inbox)));
        let routed = config.queues.values().chain(&config.default);
        for name in routed.filter(|name| !config.pools.contains_key(name)) {
            let _way = hero.as_ref().and_then(|lanes| lanes.open(name));
        }
        let pool = |(name, config): (Name, RunnerConfig)| {
            let clock = Arc::clone(&ports.clock);
            let alone = config.in_flight_max == 1;
            let lines = Lines::new(alone, clock, ports.logs.clone());
            let office = Arc::new(Office::new(name.clone(), Arc::clone(&inbox), lines));
            let ports = PoolPorts {
                employer: Arc::<Office>::clone(&office),
                clock: Arc::clone(&ports.clock),
                counters: Arc::clone(&ports.counters),
            };
            let pool = RunnerPool::new(config, ports);
            (name, Pool { pool, office })
        };
        Self {
            pools: Arc::new(config.pools.into_iter().map(pool).collect()),
            lanes: hero,
            queues: Arc::new(config.queues),
            default: config.default,
            inbox,
            numbers: Numbers::default(),
        }
    }

    /// Starts the runners. They end with `stopping`.
    pub fn run(&self, tasks: &Tasks, stopping: &CancellationToken) {
        self.lanes
            .iter()
            .for_each(|lanes| lanes.run(tasks, stopping));
        for (name, Pool { pool, .. }) in self.pools.iter() {
            let running = pool.clone().run(stopping.clone());
            let name = name.clone();
            tasks.spawn(async move {
                if let Err(error) = running.await {
                    tracing::error!(runner = %name, %error, "the runners of a pool cannot be started");
                }
            });
        }
    }

    /// Returns what pools say to the dispatch loop.
    pub fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// Returns the dispatch loop's way to each pool.
    pub fn ports(&self) -> impl Iterator<Item = (Name, Box<dyn RunnerPort>)> {
        self.pools.iter().map(|(name, Pool { pool, office })| {
            let (pool, office) = (pool.clone(), Arc::clone(office));
            let port: Box<dyn RunnerPort> = Box::new(Way { pool, office });
            (name.clone(), port)
        })
    }

    /// Returns the dispatch loop's way to runners that are there as soon as a job names them.
    pub fn more(&self) -> impl Fn(&Name) -> Option<Box<dyn RunnerPort>> + Send + use<> {
        let lanes = self.lanes.clone();
        move |name| lanes.as_ref()?.open(name)
    }

    /// Finds the runner of this name for jobs that are about to come.
    pub fn find(&self, name: &str) -> Found {
        let Ok(name) = name.parse::<Name>() else {
            return Found::Nobody;
        };
        if self.pools.contains_key(&name) {
            return Found::Runner(name);
        }
        match self.lanes.as_ref().filter(|_| is_lane(name.as_str())) {
            None => Found::Nobody,
            Some(lanes) if lanes.admit(&name) => Found::Runner(name),
            Some(_) => Found::Full,
        }
    }

    /// Checks that a runner can make something of a handler's params, an object. The error is for
    /// people.
    pub fn check(&self, runner: &Name, handler: &Name, params: &str) -> Result<(), String> {
        if self.pools.contains_key(runner) {
            return Ok(());
        }
        lanes::check(handler, params)
    }

    /// Returns the rules of jobs for a runner where they say nothing else.
    pub fn policy(&self, runner: &Name) -> Policy {
        if self.pools.contains_key(runner) {
            return rrq::policy();
        }
        Policy::default()
    }

    /// Returns the names of all pools.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.pools.keys()
    }

    /// Returns the pool that has the jobs of a queue.
    pub fn of_queue(&self, queue: &Name) -> Option<&Name> {
        self.queues.get(queue)
    }

    /// Returns the pool for handlers that nobody else has.
    pub fn default_pool(&self) -> Option<&Name> {
        self.default.as_ref()
    }

    /// Returns how all pools are, by name.
    pub fn health(&self) -> Vec<PoolHealth> {
        let of = |name: &Name| {
            let queues = self.queues.iter().filter(|(_, runner)| *runner == name);
            queues.map(|(queue, _)| queue.clone()).collect::<Vec<_>>()
        };
        let seats = |pool: &RunnerPool| pool.health().into_iter().map(RunnerHealth::from);
        let pools = self
            .pools
            .iter()
            .map(|(name, Pool { pool, .. })| PoolHealth {
                name: name.clone(),
                wire: rrq::ADAPTER.name,
                is_external: pool.is_external(),
                queues: Vec::new(),
                is_default: false,
                runners: seats(pool).collect(),
            });
        let lanes = self.lanes.iter().flat_map(Lanes::health);
        let routed = pools.chain(lanes).map(|pool| PoolHealth {
            queues: of(&pool.name),
            is_default: self.default.as_ref() == Some(&pool.name),
            ..pool
        });
        routed.collect()
    }

    /// Restarts the runners of a pool that are ours, or one of them counted from 1, each once its requests have
    /// ended. Tells whether there are any.
    pub fn restart(&self, name: &Name, only: Option<usize>) -> bool {
        let Some(Pool { pool, .. }) = self.pools.get(name) else {
            return false;
        };
        let seats = pool.health().len();
        let wanted = |seat: &usize| only.is_none_or(|only| only == seat + 1);
        let chosen: Vec<usize> = (0..seats).filter(wanted).collect();
        for seat in &chosen {
            pool.restart(*seat);
        }
        !chosen.is_empty()
    }

    /// Keeps nothing in jobs' logs any more, which end only when nobody writes to them.
    pub fn close_logs(&self) {
        for Pool { office, .. } in self.pools.values() {
            office.close_logs();
        }
    }

    /// Lets `/metrics` show how the runners are.
    pub fn register(&self, metrics: &Metrics) {
        metrics.register(|registry| self.numbers.register(registry));
    }

    /// Counts the runners anew for `/metrics`.
    pub(crate) fn count(&self) {
        for pool in self.health() {
            self.numbers.set(&pool);
        }
    }
}

/// The dispatch loop's way to a pool.
struct Way {
    pool: RunnerPool,
    office: Arc<Office>,
}

impl RunnerPort for Way {
    fn start(&self, tag: Tag, assignment: Assignment) {
        self.office.begin(tag, &assignment);
        self.pool.start(tag, assignment);
    }

    fn cancel(&self, tag: Tag, grace_ms: u64) {
        self.pool.cancel(tag, grace_ms);
    }
}
