//! The pools of foreign runners that execute our jobs: which there are, which jobs are theirs, how
//! they are. What they are given is the dispatch loop's matter (`dispatch/runners.rs`).

mod inbox;
mod lines;
mod numbers;
mod office;

use std::collections::BTreeMap;
use std::sync::Arc;

use host_core::name::Name;
use host_protocols::port::{Clock, Counters, Tag};
use host_protocols::rrq::{Assignment, PoolPorts, RunnerConfig, RunnerPool, SeatHealth};
use tokio_util::sync::CancellationToken;

use self::lines::Lines;
use self::numbers::Numbers;
use self::office::Office;
use crate::dispatch::logged::Logs;
use crate::dispatch::runners::RunnerPort;
use crate::metrics::Metrics;
use crate::tasks::Tasks;

pub use self::inbox::{Inbox, News, Over};

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

/// All pools. Cloning shares them.
#[derive(Clone)]
pub struct Runners {
    pools: Arc<BTreeMap<Name, Pool>>,
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
    /// Whether somebody else starts its runner.
    pub is_external: bool,
    /// The queues whose jobs go to it.
    pub queues: Vec<Name>,
    /// Whether it has the handlers that nobody else has.
    pub is_default: bool,
    /// Its runners.
    pub seats: Vec<SeatHealth>,
}

impl Runners {
    /// Makes the pools; nothing starts before [`Runners::run`].
    pub fn new(config: RunnersConfig, ports: &Ports) -> Self {
        let inbox = Arc::new(Inbox::default());
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
            queues: Arc::new(config.queues),
            default: config.default,
            inbox,
            numbers: Numbers::default(),
        }
    }

    /// Starts the runners. They end with `stopping`.
    pub fn run(&self, tasks: &Tasks, stopping: &CancellationToken) {
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

    /// Tells whether there is a pool of this name.
    pub fn has(&self, name: &Name) -> bool {
        self.pools.contains_key(name)
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
            queues.map(|(queue, _)| queue.clone()).collect()
        };
        let health = |(name, Pool { pool, .. }): (&Name, &Pool)| PoolHealth {
            name: name.clone(),
            is_external: pool.is_external(),
            queues: of(name),
            is_default: self.default.as_ref() == Some(name),
            seats: pool.health(),
        };
        self.pools.iter().map(health).collect()
    }

    /// Restarts the runners of a pool, or one of them counted from 1, each once its requests have
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
