//! The states of all lanes of one Redis: which exist, how many jobs each has, and whether Redis
//! accepts work. Reports changes to the dispatch loop.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host_core::name::Name;
use host_core::port::{AssignEvents, End, Tag};

use super::NAME;
use super::connection_log::ConnectionLog;
use super::settings::HeroConfig;
use crate::wire::executors::{ExecutorHealth, WorkerHealth, WorkerState};

/// The states of all lanes.
pub(super) struct LaneStates {
    events: Arc<dyn AssignEvents>,
    log: ConnectionLog,
    redis: String,
    in_flight_max: usize,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// How many executions are in flight in each lane.
    lanes: BTreeMap<Name, usize>,
    /// The lane of each execution that is out.
    executions: HashMap<Tag, Name>,
    /// Whether Redis accepts work.
    is_ready: bool,
    /// How many times in a row Redis could not be reached.
    tries: u32,
    /// Why Redis does not accept work.
    why: Option<String>,
}

impl LaneStates {
    /// Makes the states of no lanes.
    pub(super) fn new(config: &HeroConfig, events: Arc<dyn AssignEvents>) -> Self {
        Self {
            events,
            log: ConnectionLog::of_dispatcher(&config.url),
            redis: config.url.to_string(),
            in_flight_max: config.dispatch_in_flight,
            known: Mutex::default(),
        }
    }

    /// Adds a lane unless there are `lanes_max` already. Returns whether the lane exists now.
    pub(super) fn add_below(&self, lanes_max: usize, name: &Name) -> bool {
        let mut known = self.known();
        let has_room = known.lanes.contains_key(name) || known.lanes.len() < lanes_max;
        if has_room {
            known.lanes.entry(name.clone()).or_default();
            self.tell_capacity(&known, name);
        }
        has_room
    }

    /// Counts an execution that its lane sends out.
    pub(super) fn started(&self, tag: Tag, name: &Name) {
        let mut known = self.known();
        known.executions.insert(tag, name.clone());
        *known.lanes.entry(name.clone()).or_default() += 1;
    }

    /// Records that an execution is over. Further calls for the same execution change nothing.
    pub(super) fn ended(&self, tag: Tag, end: End) {
        let mut known = self.known();
        let Some(name) = known.executions.remove(&tag) else {
            return;
        };
        if let Some(in_flight) = known.lanes.get_mut(&name) {
            *in_flight = in_flight.saturating_sub(1);
        }
        drop(known);
        self.events.ended(tag, name.to_string(), end);
    }

    /// Records that Redis can be reached. It accepts work after [`Self::ready`].
    pub(super) fn connected(&self) {
        self.log.connected();
    }

    /// Records that Redis accepts work, until [`Self::away`].
    pub(super) fn ready(&self) {
        self.set_ready(true, |known| {
            known.tries = 0;
            known.why = None;
        });
    }

    /// Records that Redis cannot be reached.
    pub(super) fn away(&self, tries: u32, why: &str) {
        self.set_ready(false, |known| {
            known.tries = tries;
            known.why = Some(why.to_owned());
        });
        self.log.away(tries, why);
    }

    /// Records that Redis refused a command.
    pub(super) fn refused(&self, times: u32, why: &str) {
        self.known().why = Some(format!("Redis refuses: {why}"));
        self.log.refused(times, why);
    }

    /// Returns the health of all lanes.
    pub(super) fn health(&self) -> Vec<ExecutorHealth> {
        let known = self.known();
        let state = match (known.is_ready, &known.why) {
            (true, _) => WorkerState::Up,
            (false, None) => WorkerState::Starting,
            (false, Some(_)) => WorkerState::Down,
        };
        let health = |(name, in_flight): (&Name, &usize)| ExecutorHealth {
            name: name.clone(),
            wire: NAME,
            is_external: true,
            is_restartable: false,
            workers: vec![WorkerHealth {
                name: name.to_string(),
                state,
                address: Some(self.redis.clone()),
                pid: None,
                in_flight: *in_flight,
                failures: known.tries,
                reason: known.why.clone(),
                doing: None,
            }],
        };
        known.lanes.iter().map(health).collect()
    }

    fn set_ready(&self, is_ready: bool, change: impl FnOnce(&mut Known)) {
        let mut known = self.known();
        known.is_ready = is_ready;
        change(&mut known);
        for name in known.lanes.keys() {
            self.tell_capacity(&known, name);
        }
    }

    /// Reports how much a lane accepts: nothing while Redis is away. The lock is held, so that the
    /// last report is the current one.
    fn tell_capacity(&self, known: &Known, name: &Name) {
        let attempts = if known.is_ready {
            self.in_flight_max
        } else {
            0
        };
        self.events.capacity(name, attempts);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
