//! The lanes to foreign Hero workers of one Redis: one for each worker id, named `hero-<worker id>`,
//! there as soon as a job names it. What goes on in Redis is the session's matter.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host_core::name::Name;
use host_core::outcome::Outcome;
use host_protocols::hero::{
    self, Desk, DispatcherConfig, DispatcherPorts, Employer, Execution, News, RedisUrl, SCRIPT,
    Task,
};
use host_core::port::{Clock, Tag};
use host_core::port::{Assignment, End, Room, SeatState};
use tokio_util::sync::CancellationToken;

use super::inbox::{Inbox, Over};
use super::{PoolHealth, RunnerHealth};
use host_dispatch::runners::RunnerPort;
use host_runtime::ids;
use host_runtime::tasks::Tasks;

/// What stands before the worker id in a lane's name.
pub const LANE_PREFIX: &str = "hero-";

/// The most lanes that jobs can be enqueued for: each is remembered until the host ends.
pub const LANES_MAX: usize = 256;

/// The grace of a cancel that names none, in milliseconds: workers look for stops now and then.
const GRACE_MS: u64 = 5_000;

/// Where foreign Hero workers take jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LanesConfig {
    /// Their Redis.
    pub url: RedisUrl,
    /// Names this host among those of that Redis.
    pub instance: String,
    /// The most jobs of one worker id that are out at once.
    pub in_flight_max: usize,
}

/// Tells whether a name is that of a lane.
pub fn is_lane(name: &str) -> bool {
    worker_id(name).is_some()
}

fn worker_id(name: &str) -> Option<&str> {
    name.strip_prefix(LANE_PREFIX).filter(|id| !id.is_empty())
}

/// All lanes. Cloning shares them.
#[derive(Clone)]
pub(super) struct Lanes {
    desk: Desk,
    post: Arc<Post>,
    url: RedisUrl,
}

/// The host's side of the session.
struct Post {
    inbox: Arc<Inbox>,
    redis: String,
    in_flight_max: usize,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// How much is in flight in each lane.
    lanes: BTreeMap<Name, usize>,
    runs: HashMap<Tag, Name>,
    /// Whether Redis takes work.
    is_ready: bool,
    /// How often in a row it could not be reached, and why it does not take work.
    tries: u32,
    why: Option<String>,
}

impl Lanes {
    pub(super) fn new(config: LanesConfig, clock: Arc<dyn Clock>, inbox: Arc<Inbox>) -> Self {
        let post = Arc::new(Post {
            inbox,
            redis: config.url.to_string(),
            in_flight_max: config.in_flight_max,
            known: Mutex::default(),
        });
        let dispatcher = DispatcherConfig {
            // Each lane has its own limit.
            in_flight_max: usize::MAX,
            ..DispatcherConfig::new(config.instance)
        };
        let ports = DispatcherPorts {
            employer: Arc::<Post>::clone(&post),
            clock,
        };
        Self {
            desk: Desk::new(dispatcher, ports),
            post,
            url: config.url,
        }
    }

    /// Connects to Redis. All ends with `stopping`.
    pub(super) fn run(&self, tasks: &Tasks, stopping: &CancellationToken) {
        tasks.spawn(self.desk.clone().run(self.url.clone(), stopping.clone()));
    }

    /// Takes note of a lane for which there are to be jobs; tells whether there may be.
    pub(super) fn admit(&self, name: &Name) -> bool {
        let mut known = self.post.known();
        let room = known.lanes.contains_key(name) || known.lanes.len() < LANES_MAX;
        if room {
            self.post.add(&mut known, name);
        }
        room
    }

    /// Returns the dispatch loop's way to a lane, `None` if the name is not one's.
    pub(super) fn open(&self, name: &Name) -> Option<Box<dyn RunnerPort>> {
        let worker_id = worker_id(name.as_str())?.to_owned();
        self.post.add(&mut self.post.known(), name);
        Some(Box::new(Lane {
            name: name.clone(),
            worker_id,
            desk: self.desk.clone(),
            post: Arc::clone(&self.post),
        }))
    }

    /// Returns how all lanes are; which queues are theirs is left open.
    pub(super) fn health(&self) -> Vec<PoolHealth> {
        let known = self.post.known();
        let state = match (known.is_ready, &known.why) {
            (true, _) => SeatState::Up,
            (false, None) => SeatState::Starting,
            (false, Some(_)) => SeatState::Down,
        };
        let health = |(name, in_flight): (&Name, &usize)| PoolHealth {
            name: name.clone(),
            wire: hero::ADAPTER.name,
            is_external: true,
            queues: Vec::new(),
            is_default: false,
            runners: vec![RunnerHealth {
                executor: name.to_string(),
                state,
                address: Some(self.post.redis.clone()),
                pid: None,
                in_flight: *in_flight,
                failures: known.tries,
                reason: known.why.clone(),
            }],
        };
        known.lanes.iter().map(health).collect()
    }
}

/// Checks that a lane can make something of params. The error is for people.
pub(super) fn check(handler: &Name, params: &str) -> Result<(), String> {
    if handler.as_str() != SCRIPT {
        return Ok(());
    }
    let params = host_core::json::JsonText(params.to_owned());
    Task::of(SCRIPT.to_owned(), params).map(drop)
}

impl Post {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, known: &mut Known, name: &Name) {
        known.lanes.entry(name.clone()).or_default();
        self.tell(known, name);
    }

    /// Tells how much a lane takes: nothing while Redis is away.
    fn tell(&self, known: &Known, name: &Name) {
        let free = if known.is_ready {
            self.in_flight_max
        } else {
            0
        };
        let in_flight = 0;
        self.inbox.room(name, Room { free, in_flight });
    }

    fn turn(&self, is_ready: bool, change: impl FnOnce(&mut Known)) {
        let mut known = self.known();
        known.is_ready = is_ready;
        change(&mut known);
        for name in known.lanes.keys() {
            self.tell(&known, name);
        }
    }
}

impl News for Post {
    fn connected(&self, _session: &str) {
        tracing::info!(redis = %self.redis, "jobs for Hero workers can be sent to Redis");
    }

    fn away(&self, _session: &str, tries: u32, why: &str) {
        self.turn(false, |known| {
            known.tries = tries;
            known.why = Some(why.to_owned());
        });
        if tries.is_power_of_two() {
            tracing::warn!(
                redis = %self.redis, tries, why,
                "Redis cannot be reached; jobs for Hero workers wait, and it is tried again"
            );
        }
    }

    fn refused(&self, _session: &str, times: u32, why: &str) {
        self.known().why = Some(format!("Redis refuses: {why}"));
        if times.is_power_of_two() {
            tracing::warn!(
                redis = %self.redis, times, why,
                "Redis refuses what is sent for Hero workers; it is sent again until it does not"
            );
        }
    }
}

impl Employer for Post {
    fn ready(&self) {
        self.turn(true, |known| {
            known.tries = 0;
            known.why = None;
        });
    }

    fn ended(&self, tag: Tag, end: End) {
        let mut known = self.known();
        let Some(name) = known.runs.remove(&tag) else {
            return;
        };
        if let Some(in_flight) = known.lanes.get_mut(&name) {
            *in_flight = in_flight.saturating_sub(1);
        }
        drop(known);
        let executor = name.into();
        self.inbox.over(Over { tag, executor, end });
    }
}

/// The dispatch loop's way to one worker id.
struct Lane {
    name: Name,
    worker_id: String,
    desk: Desk,
    post: Arc<Post>,
}

impl RunnerPort for Lane {
    fn start(&self, tag: Tag, assignment: Assignment) {
        let mut known = self.post.known();
        known.runs.insert(tag, self.name.clone());
        *known.lanes.entry(self.name.clone()).or_default() += 1;
        drop(known);
        match Execution::of(assignment, &self.worker_id, ids::uuid()) {
            Ok(execution) => self.desk.start(tag, execution),
            Err(failure) => {
                let end = End::Outcome(Outcome::Failed(failure));
                self.post.ended(tag, end);
            }
        }
    }

    fn cancel(&self, tag: Tag, grace_ms: u64) {
        self.desk.cancel(tag, grace_ms);
    }

    /// All lanes of the same Redis are drained.
    fn drain(&self) {
        self.desk.drain();
    }

    fn grace_ms(&self) -> u64 {
        GRACE_MS
    }
}
