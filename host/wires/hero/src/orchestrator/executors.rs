//! The executors of one Redis: one for each foreign worker id, named `hero-<worker id>` and made when a
//! job names it. They take jobs while Redis accepts work. The session talks to Redis.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use host_core::json::JsonText;
use host_core::name::Name;
use host_core::outcome::Outcome;
use host_core::port::lease::Leases;
use host_core::port::{Assignment, End, Tag};
use host_runtime::ids;
use host_runtime::mailbox::Mailbox;
use host_runtime::slots::{Pusher, Slots};
use host_wire_kit::executors::{
    ExecutorHealth, ExecutorRules, Executors, NameLookup, NamedBy, WorkerHealth, WorkerState,
};
use parking_lot::Mutex;

use super::execution::Execution;
use crate::NAME;
use crate::job::new::{SCRIPT, Task};
use crate::settings::HeroConfig;
use crate::transport::connection_log::ConnectionLog;

/// The prefix of the worker id in an executor's name.
const PREFIX: &str = "hero-";

/// The most executors. Each is kept until the host ends.
const EXECUTORS_MAX: usize = 256;

/// The grace period of a cancel that sets none, in milliseconds. Workers check for stops only at
/// intervals.
const GRACE_MS: u64 = 5_000;

/// Returns whether a name is the name of an executor.
pub(crate) fn is_executor(name: &str) -> bool {
    worker_id(name).is_some()
}

fn worker_id(name: &str) -> Option<&str> {
    name.strip_prefix(PREFIX).filter(|id| !id.is_empty())
}

/// A request of the host to the session.
pub(super) enum Request {
    /// Send an execution out. [`HeroExecutors::ended`] follows exactly once in any case.
    Start(Tag, Box<Execution>),
    /// Stop an execution. One that has not stopped a second after this grace period, in milliseconds,
    /// is given up.
    Cancel(Tag, u64),
    /// Take back the executions that no worker has. They end with [`End::NoRoom`].
    Drain,
}

/// All executors of one Redis.
pub(crate) struct HeroExecutors {
    slots: Arc<Slots>,
    requests: Mailbox<Request>,
    log: ConnectionLog,
    redis: String,
    in_flight_max: usize,
    connection: Mutex<Connection>,
}

/// What is known of Redis.
#[derive(Default)]
struct Connection {
    /// Whether it accepts work.
    is_ready: bool,
    /// How many times in a row it could not be reached.
    tries: u32,
    /// Why it does not accept work.
    why: Option<String>,
}

impl HeroExecutors {
    /// Makes the executors, whose session does not run yet.
    pub(super) fn new(config: &HeroConfig, leases: &Arc<dyn Leases>) -> Arc<Self> {
        let slots = Slots::new(Arc::clone(leases), GRACE_MS);
        let executors = Arc::new(Self {
            slots: Arc::clone(&slots),
            requests: Mailbox::default(),
            log: ConnectionLog::of_orchestrator(&config.url),
            redis: config.url.to_string(),
            in_flight_max: config.dispatch_in_flight,
            connection: Mutex::default(),
        });
        slots.connect(Arc::downgrade(&executors) as _);
        executors
    }

    /// The requests for the session.
    pub(super) const fn requests(&self) -> &Mailbox<Request> {
        &self.requests
    }

    /// Ends all requests that the session has not taken, and all later ones.
    pub(super) fn close(&self) {
        for request in self.requests.close() {
            self.turn_away(&request);
        }
    }

    /// Records that an execution is over. Further calls for the same execution change nothing.
    pub(super) fn ended(&self, tag: Tag, end: End) {
        if let Some(executor) = self.slots.executor(tag) {
            self.slots.end(tag, executor.to_string(), end);
        }
    }

    /// Records that Redis can be reached. It accepts work after [`Self::ready`].
    pub(super) fn connected(&self) {
        self.log.connected();
    }

    /// Records that Redis accepts work, until [`Self::away`].
    pub(super) fn ready(&self) {
        self.set(Connection {
            is_ready: true,
            ..Connection::default()
        });
    }

    /// Records that Redis cannot be reached.
    pub(super) fn away(&self, tries: u32, why: &str) {
        self.set(Connection {
            is_ready: false,
            tries,
            why: Some(why.to_owned()),
        });
        self.log.away(tries, why);
    }

    /// Records that Redis refused a command.
    pub(super) fn refused(&self, times: u32, why: &str) {
        self.connection.lock().why = Some(format!("Redis refuses: {why}"));
        self.log.refused(times, why);
    }

    /// Sets what is known of Redis, and how many jobs all executors take: none while Redis is away. The
    /// lock is held, so that the last capacity is the current one.
    fn set(&self, now: Connection) {
        let mut connection = self.connection.lock();
        *connection = now;
        for name in self.slots.in_flight().keys() {
            self.slots.set_capacity(name, self.capacity(&connection));
        }
    }

    /// Adds an executor unless there are `executors_max` already. Returns whether it exists now.
    fn add_below(&self, executors_max: usize, name: &Name) -> bool {
        let connection = self.connection.lock();
        let exists = self.slots.add_below(executors_max, name);
        if exists {
            self.slots.set_capacity(name, self.capacity(&connection));
        }
        exists
    }

    const fn capacity(&self, connection: &Connection) -> usize {
        if connection.is_ready {
            self.in_flight_max
        } else {
            0
        }
    }

    fn request(&self, request: Request) {
        if let Err(request) = self.requests.put(request) {
            self.turn_away(&request);
        }
    }

    /// Answers a request that arrives when the session no longer runs.
    fn turn_away(&self, request: &Request) {
        if let Request::Start(tag, _) = request {
            self.ended(*tag, End::NoRoom);
        }
    }
}

impl Executors for HeroExecutors {
    /// No executor is configured: each exists once a job names it.
    fn names(&self) -> Vec<Name> {
        Vec::new()
    }

    fn rules(&self) -> ExecutorRules {
        ExecutorRules {
            families: &[PREFIX],
            ..ExecutorRules::default()
        }
    }

    fn find(&self, name: &Name, by: NamedBy) -> NameLookup {
        let executors_max = match by {
            NamedBy::NewJob => EXECUTORS_MAX,
            NamedBy::KeptJob => usize::MAX,
        };
        if !is_executor(name.as_str()) {
            NameLookup::Missing
        } else if self.add_below(executors_max, name) {
            NameLookup::Here
        } else {
            NameLookup::Full(EXECUTORS_MAX)
        }
    }

    fn check(&self, _executor: &Name, handler: &Name, params: &str) -> Result<(), String> {
        if handler.as_str() != SCRIPT {
            return Ok(());
        }
        Task::of(SCRIPT.to_owned(), JsonText(params.to_owned())).map(drop)
    }

    fn health(&self) -> Vec<ExecutorHealth> {
        let connection = self.connection.lock();
        let state = match (connection.is_ready, &connection.why) {
            (true, _) => WorkerState::Up,
            (false, None) => WorkerState::Starting,
            (false, Some(_)) => WorkerState::Down,
        };
        let health = |(name, in_flight): (Name, usize)| ExecutorHealth {
            name: name.clone(),
            wire: NAME,
            is_external: true,
            is_restartable: false,
            workers: vec![WorkerHealth {
                name: name.to_string(),
                state,
                address: Some(self.redis.clone()),
                pid: None,
                in_flight,
                failures: connection.tries,
                reason: connection.why.clone(),
                doing: None,
            }],
        };
        self.slots.in_flight().into_iter().map(health).collect()
    }
}

impl Pusher for HeroExecutors {
    fn start(self: Arc<Self>, tag: Tag, executor: &Name, assignment: Assignment) {
        let worker_id = worker_id(executor.as_str()).unwrap_or_default();
        match Execution::of(assignment, worker_id, ids::uuid()) {
            Ok(execution) => self.request(Request::Start(tag, Box::new(execution))),
            Err(failure) => self.ended(tag, End::Outcome(Outcome::Failed(failure))),
        }
    }

    fn cancel(self: Arc<Self>, tag: Tag, grace_ms: u64) {
        self.request(Request::Cancel(tag, grace_ms));
    }

    fn recall(self: Arc<Self>) {
        self.request(Request::Drain);
    }
}
