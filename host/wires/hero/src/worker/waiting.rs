//! Jobs that wait for other jobs before they run.

use std::collections::{BTreeMap, BTreeSet};

use super::{Acts, Due, Ending, PARKED_MAX, Phase, Purpose, Value, Worker, WorkerAct, messages};
use crate::job;
use crate::job::circles::{self, Walk};

use host_core::time::Time;
use host_wire_kit::session::Moment;

/// How often to check the jobs that others wait for, in milliseconds.
const CHECK_EVERY_MS: u64 = 250;

/// The most jobs checked in one call.
const CHECKS_MAX: usize = 1_000;

/// The most jobs moved to the end of the queue at one check.
const MOVES_MAX: usize = 128;

/// How often to look for circles over all worker ids, in milliseconds.
const CIRCLES_EVERY_MS: u64 = 2_000;

/// The search for jobs that wait for each other.
#[derive(Debug, Default)]
pub(super) struct Circles {
    /// The walk in progress, if any.
    walk: Option<Walk>,
    /// The circles that the last walk found and that it left to others.
    left: BTreeSet<BTreeSet<String>>,
}

impl Circles {
    pub(super) fn give_up(&mut self) {
        self.walk = None;
    }
}

impl Worker {
    /// Makes a job wait for others, or makes it ready.
    pub(super) fn admit(&mut self, at: Moment, id: &str, todo: &mut Acts) {
        let job = self.jobs.get(id).and_then(|held| held.job.as_ref());
        let open = job.map(|job| job.depends_on.clone()).unwrap_or_default();
        if open.is_empty() {
            return self.enter_context(id);
        }
        let ids: Vec<String> = open.iter().cloned().collect();
        self.jobs.set_phase(id, Phase::Waiting(open));
        if let Some(path) = self.cycle(id) {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            let refusal = job::cycle(&path);
            todo.push(WorkerAct::Count(refusal.code()));
            return self.finish(at, id, Ending::Error(refusal.text()), todo);
        }
        self.ask_statuses(ids, todo);
        self.timers
            .arm_once(at.now.plus_ms(CHECK_EVERY_MS), Due::Statuses);
        self.timers
            .arm_once(at.now.plus_ms(CIRCLES_EVERY_MS), Due::Circles);
    }

    /// Begins to look for circles through jobs of other worker ids and hosts.
    pub(super) fn find_circles(&mut self, at: Moment, todo: &mut Acts) {
        if self.jobs.waiting().next().is_none() || self.stopping {
            self.circles = Circles::default();
            return;
        }
        let next = at.now.plus_ms(CIRCLES_EVERY_MS);
        self.timers.arm_once(next, Due::Circles);
        if self.circles.walk.is_some() || !self.calls.is_connected() {
            return;
        }
        let waiting = self
            .jobs
            .waiting()
            .map(|(id, open)| (id.clone(), open.clone()));
        self.circles.walk = Some(Walk::from(waiting));
        self.walk_on(at, todo);
    }

    /// Handles what other jobs wait for.
    pub(super) fn linked(
        &mut self,
        at: Moment,
        ids: &[String],
        value: Option<&Value>,
        todo: &mut Acts,
    ) {
        let Some(walk) = &mut self.circles.walk else {
            return;
        };
        if !walk.add(ids, value) {
            return self.circles.give_up();
        }
        self.walk_on(at, todo);
    }

    fn walk_on(&mut self, at: Moment, todo: &mut Acts) {
        let Some(walk) = self.circles.walk.take() else {
            return;
        };
        let next = walk.next();
        if !next.is_empty() {
            let read = Walk::read(&next);
            self.circles.walk = Some(walk);
            return self.call(Purpose::Links(next), vec![read], todo);
        }
        let found = walk.circles(|id| self.jobs.is_waiting(id));
        let before = std::mem::take(&mut self.circles.left);
        for circle in found {
            let Some(ours) = circles::first(&circle, |id| self.jobs.is_waiting(id)) else {
                continue;
            };
            let ring: BTreeSet<String> = circle.iter().cloned().collect();
            // The host that has the first of all ends it. If none has, we do.
            if ring.first().is_none_or(|first| first != ours) && !before.contains(&ring) {
                self.circles.left.insert(ring);
                continue;
            }
            let ours = ours.to_owned();
            let refusal = job::cycle(&circles::turned(&circle, &ours));
            todo.push(WorkerAct::Count(refusal.code()));
            self.finish(at, &ours, Ending::Error(refusal.text()), todo);
        }
    }

    fn ask_statuses(&mut self, ids: Vec<String>, todo: &mut Acts) {
        let reads = ids.iter().map(|id| messages::status_of(id)).collect();
        self.call(Purpose::Statuses(ids), reads, todo);
    }

    /// Finds a circle of waiting jobs through `id`, with the first repeated at the end.
    fn cycle(&self, id: &str) -> Option<Vec<String>> {
        let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
        let mut next: Vec<&str> = vec![id];
        while let Some(at) = next.pop() {
            let Some(Phase::Waiting(open)) = self.jobs.phase(at) else {
                continue;
            };
            for other in open {
                if other == id {
                    let mut path = vec![id.to_owned()];
                    let mut step = at;
                    while step != id {
                        path.push(step.to_owned());
                        step = came_from.get(step).copied().unwrap_or(id);
                    }
                    path.push(id.to_owned());
                    path.reverse();
                    return Some(path);
                }
                if !came_from.contains_key(other.as_str()) {
                    came_from.insert(other, at);
                    next.push(other);
                }
            }
        }
        None
    }

    /// Reads the status of the jobs that others wait for.
    pub(super) fn read_dependencies(&mut self, now: Time, todo: &mut Acts) {
        let ids: BTreeSet<&String> = self.jobs.waiting().flat_map(|(_, open)| open).collect();
        if ids.is_empty() {
            return;
        }
        // The other jobs are read at the next checks.
        let start = usize::try_from(self.calls.made()).unwrap_or_default() % ids.len();
        let turn = ids
            .iter()
            .cycle()
            .skip(start)
            .take(ids.len().min(CHECKS_MAX));
        let ids: Vec<String> = turn.map(|id| (*id).clone()).collect();
        self.ask_statuses(ids, todo);
        self.timers
            .arm_once(now.plus_ms(CHECK_EVERY_MS), Due::Statuses);
    }

    /// If no more jobs are taken because too many wait, checks whether jobs are queued.
    pub(super) fn check_queue(&mut self, todo: &mut Acts) {
        if self.jobs.parked() >= PARKED_MAX && !self.stopping {
            let count = messages::count_queued(&self.config.worker_id);
            self.call(Purpose::Behind, vec![count], todo);
        }
    }

    /// Moves some of the waiting jobs to the end of their queue, because the jobs they wait for may
    /// be in it.
    pub(super) fn make_room(&mut self, at: Moment, queued: Option<&Value>, todo: &mut Acts) {
        let Some(Value::Int(queued)) = queued else {
            return;
        };
        let count = usize::try_from(*queued).unwrap_or_default();
        let far = self.config.pop_side.other();
        let waiting = self.jobs.waiting().take(count.min(MOVES_MAX));
        let ids: Vec<String> = waiting.map(|(id, _)| id.clone()).collect();
        for id in ids {
            self.release(at, &id, far, todo);
        }
    }

    /// Handles the status of the jobs that others wait for.
    pub(super) fn statuses(
        &mut self,
        at: Moment,
        ids: &[String],
        values: &[Value],
        todo: &mut Acts,
    ) {
        for (id, value) in ids.iter().zip(values) {
            match value.text() {
                Some("finished") => self.has_ended(at, id, true, todo),
                Some("error") => self.has_ended(at, id, false, todo),
                _ => {}
            }
        }
    }

    /// Updates the jobs that wait for `id`, which has ended.
    pub(super) fn has_ended(&mut self, at: Moment, id: &str, finished: bool, todo: &mut Acts) {
        let waited = self.jobs.dependency_ended(id);
        if !finished {
            for (waiting, _) in waited {
                let error = format!("prerequisite_failed: {id}");
                self.finish(at, &waiting, Ending::Error(error), todo);
            }
            return;
        }
        for (free, _) in waited.into_iter().filter(|(_, still_waits)| !still_waits) {
            self.enter_context(&free);
        }
    }
}
