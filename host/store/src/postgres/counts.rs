//! How many jobs each queue has in each state, and which queues are paused: read once, and again when another
//! host has written. A batch changes only the numbers of its own node, so hosts do not wait for each other. A
//! number that is briefly wrong only makes a claim early or late.

use std::collections::{BTreeMap, HashMap, HashSet};

use host_core::command::{Command, Slot};
use host_core::job::{Lane, Lifecycle, STATES, State};
use host_core::name::Name;

use crate::engine::Counts as Limited;

use super::client::Client;
use super::trouble::{Trouble, damaged};

/// The pseudo state under which available jobs of foreign runners are counted.
const FOR_RUNNERS: i16 = 8;

#[derive(Default)]
struct Queue {
    paused: bool,
    /// The available jobs, and those of them that are for foreign runners.
    available: i64,
    for_runners: i64,
}

/// The numbers of all queues.
#[derive(Default)]
pub(super) struct Counts {
    queues: HashMap<Name, Queue>,
    /// What the open batch has changed, by queue and state.
    changed: BTreeMap<(Name, i16), i64>,
    /// Queues that the open batch has created.
    made: HashSet<Name>,
    /// How many jobs cells may claim in queues that are not paused.
    claimable: i64,
    /// The jobs that have not ended.
    live: i64,
    /// How often a queue had been paused or resumed when the numbers were read.
    pub(super) pauses: i64,
}

impl Counts {
    /// Reads the numbers.
    pub(super) async fn load(client: &Client) -> Result<Self, Trouble> {
        let reading = |error| Trouble::of("read the queues", &error);
        let sql = "SELECT name, paused, available, for_runners, live, \
                   (SELECT pauses FROM host_log WHERE id = 1) \
                   FROM host_queues LEFT JOIN (SELECT queue, \
                     sum(jobs) FILTER (WHERE state = 2)::bigint AS available, \
                     sum(jobs) FILTER (WHERE state = 8)::bigint AS for_runners, \
                     sum(jobs) FILTER (WHERE state = ANY($1))::bigint AS live \
                   FROM host_counts GROUP BY queue) AS counted ON queue = name";
        let live = STATES.iter().filter(|state| !state.is_terminal());
        let live: Vec<i16> = live.map(|state| *state as i16).collect();
        let mut counts = Self::default();
        for row in client.ask(sql, &[&live]).await.map_err(reading)? {
            let name = parse_name(row.get(0)).map_err(Trouble::Fatal)?;
            let queue = Queue {
                paused: row.get(1),
                available: row.get::<_, Option<i64>>(2).unwrap_or(0),
                for_runners: row.get::<_, Option<i64>>(3).unwrap_or(0),
            };
            counts.live += row.get::<_, Option<i64>>(4).unwrap_or(0);
            counts.pauses = row.get(5);
            if !queue.paused {
                counts.claimable += queue.available - queue.for_runners;
            }
            counts.queues.insert(name, queue);
        }
        Ok(counts)
    }

    /// Moves one job from the number of one state to that of another.
    pub(super) fn count(&mut self, job: &Lifecycle, from: Option<State>, to: Option<State>) {
        if from == to {
            return;
        }
        for (state, step) in [(from, -1), (to, 1)] {
            let Some(state) = state else { continue };
            self.step(&job.queue, state as i16, step);
            if !state.is_terminal() {
                self.live += step;
            }
            if state == State::Available {
                let queue = self.queues.entry(job.queue.clone()).or_default();
                queue.available += step;
                if job.runner.is_some() {
                    queue.for_runners += step;
                    self.step(&job.queue, FOR_RUNNERS, step);
                } else if !queue.paused {
                    self.claimable += step;
                }
            }
        }
    }

    fn step(&mut self, queue: &Name, state: i16, step: i64) {
        *self.changed.entry((queue.clone(), state)).or_default() += step;
    }

    /// Counts what has a capacity limit.
    pub(super) fn limited(&self) -> Limited {
        Limited {
            queues: self.queues.len() as u64,
            live: u64::try_from(self.live).unwrap_or(0),
        }
    }

    pub(super) fn has(&self, queue: &Name) -> bool {
        self.queues.contains_key(queue)
    }

    /// Makes sure that a queue exists.
    pub(super) fn make(&mut self, queue: &Name) {
        if !self.queues.contains_key(queue) {
            self.queues.insert(queue.clone(), Queue::default());
            self.made.insert(queue.clone());
        }
    }

    pub(super) fn set_paused(&mut self, name: &Name, paused: bool) {
        let queue = self.queues.entry(name.clone()).or_default();
        let jobs = queue.available - queue.for_runners;
        if paused && !queue.paused {
            self.claimable -= jobs;
        } else if !paused && queue.paused {
            self.claimable += jobs;
        }
        queue.paused = paused;
        self.pauses += 1;
    }

    pub(super) fn is_paused(&self, queue: &Name) -> bool {
        self.queues.get(queue).is_some_and(|queue| queue.paused)
    }

    /// Returns the queues from which jobs of a lane may be claimed, and how many each may have.
    pub(super) fn claimable(&self, lane: &Lane) -> HashMap<&str, i64> {
        let jobs = |queue: &Queue| match lane {
            Lane::Shared | Lane::Alone => queue.available - queue.for_runners,
            Lane::Runner(_) => queue.for_runners,
        };
        let open = self.queues.iter().filter(|(_, queue)| !queue.paused);
        let queues = open.map(|(name, queue)| (name.as_str(), jobs(queue)));
        queues.filter(|(_, jobs)| *jobs > 0).collect()
    }

    /// Returns whether a claim of the batch wants more jobs than are known and than the batch adds.
    pub(super) fn starve(&self, batch: &[Command]) -> bool {
        let (mut brought, mut for_runners, mut starves) = (self.available(), 0_u64, false);
        for command in batch {
            match command {
                Command::Enqueue(jobs) => {
                    let ours = jobs.iter().filter(|job| job.runner.is_none()).count();
                    brought += ours as u64;
                    for_runners += (jobs.len() - ours) as u64;
                }
                // A job that waits for this one, or this one again.
                Command::Complete { .. } | Command::Lose { .. } => brought += 1,
                Command::Claim { slots, .. } => {
                    let is_empty = |slot: &Slot| match &slot.lane {
                        Lane::Shared | Lane::Alone => false,
                        lane @ Lane::Runner(_) => {
                            for_runners == 0 && self.claimable(lane).is_empty()
                        }
                    };
                    starves |= brought < slots.len() as u64 || slots.iter().any(is_empty);
                }
                _ => {}
            }
        }
        starves
    }

    /// Returns how many jobs cells may claim.
    pub(super) fn available(&self) -> u64 {
        u64::try_from(self.claimable).unwrap_or(0)
    }

    /// Takes the queues that the batch has created.
    pub(super) fn take_made(&mut self) -> Vec<String> {
        let mut made: Vec<String> = self.made.drain().map(|name| name.to_string()).collect();
        made.sort();
        made
    }

    /// Takes what the batch has changed.
    pub(super) fn take_changed(&mut self) -> Vec<(Name, i16, i64)> {
        let changed = std::mem::take(&mut self.changed).into_iter();
        let changed = changed.filter(|(_, step)| *step != 0);
        changed
            .map(|((queue, state), step)| (queue, state, step))
            .collect()
    }
}

/// Reads a name that a row has.
pub(super) fn parse_name(name: &str) -> Result<Name, crate::error::StoreError> {
    name.parse()
        .map_err(|error| damaged(format!("the name {name}"), format!("{error}")))
}
