//! The states of all lanes of one Redis: which exist, how many jobs each has, and whether Redis
//! accepts work. Sets how many jobs the lanes take.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host_core::name::Name;
use host_core::port::{End, Tag};
use host_runtime::slots::Slots;

use super::NAME;
use super::connection_log::ConnectionLog;
use super::section::HeroConfig;
use crate::wire::executors::{ExecutorHealth, WorkerHealth, WorkerState};

/// The states of all lanes.
pub(super) struct LaneStates {
    slots: Arc<Slots>,
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

impl LaneStates {
    /// Makes the states of no lanes.
    pub(super) fn new(config: &HeroConfig, slots: Arc<Slots>) -> Self {
        Self {
            slots,
            log: ConnectionLog::of_dispatcher(&config.url),
            redis: config.url.to_string(),
            in_flight_max: config.dispatch_in_flight,
            connection: Mutex::default(),
        }
    }

    /// Adds a lane unless there are `lanes_max` already. Returns whether the lane exists now.
    pub(super) fn add_below(&self, lanes_max: usize, name: &Name) -> bool {
        let connection = self.connection();
        let exists = self.slots.add_below(lanes_max, name);
        if exists {
            self.set_capacity(&connection, name);
        }
        exists
    }

    /// Records that an execution is over. Further calls for the same execution change nothing.
    pub(super) fn ended(&self, tag: Tag, end: End) {
        if let Some(lane) = self.slots.executor(tag) {
            self.slots.ended(tag, lane.to_string(), end);
        }
    }

    /// Records that Redis can be reached. It accepts work after [`Self::ready`].
    pub(super) fn connected(&self) {
        self.log.connected();
    }

    /// Records that Redis accepts work, until [`Self::away`].
    pub(super) fn ready(&self) {
        self.set_ready(true, |connection| {
            connection.tries = 0;
            connection.why = None;
        });
    }

    /// Records that Redis cannot be reached.
    pub(super) fn away(&self, tries: u32, why: &str) {
        self.set_ready(false, |connection| {
            connection.tries = tries;
            connection.why = Some(why.to_owned());
        });
        self.log.away(tries, why);
    }

    /// Records that Redis refused a command.
    pub(super) fn refused(&self, times: u32, why: &str) {
        self.connection().why = Some(format!("Redis refuses: {why}"));
        self.log.refused(times, why);
    }

    /// Returns the health of all lanes.
    pub(super) fn health(&self) -> Vec<ExecutorHealth> {
        let connection = self.connection();
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

    fn set_ready(&self, is_ready: bool, change: impl FnOnce(&mut Connection)) {
        let mut connection = self.connection();
        connection.is_ready = is_ready;
        change(&mut connection);
        for name in self.slots.in_flight().keys() {
            self.set_capacity(&connection, name);
        }
    }

    /// Sets how much a lane takes: nothing while Redis is away. The lock is held, so that the last
    /// capacity is the current one.
    fn set_capacity(&self, connection: &Connection, name: &Name) {
        let attempts = if connection.is_ready {
            self.in_flight_max
        } else {
            0
        };
        self.slots.set_capacity(name, attempts);
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
