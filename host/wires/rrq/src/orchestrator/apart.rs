//! Suspects and runners that are stuck: which runner a request goes to, and which extra runners are started.

use host_core::port::{Assignment, End, Tag};
use host_core::suspicion::{Group, Groups, Suspicion};
use host_core::time::Time;
use host_wire_kit::session::Moment;

use super::super::convert;
use super::runner::{Duty, Runner, State};
use super::{Orchestrator, PoolActions, PoolEffect, TERM_GRACE_MS, Timer};

/// A request that was not sent because it has to be kept apart.
#[derive(Debug)]
pub(super) struct ApartRequest {
    tag: Tag,
    assignment: Box<Assignment>,
    /// When it came.
    at: Moment,
}

impl Orchestrator {
    /// Returns the runner for a request: for a suspect one with a group that has room, or else an idle one; for
    /// others the one with the most room.
    pub(super) fn place(&self, suspicion: Suspicion) -> Option<usize> {
        if self.stopping {
            return None;
        }
        if suspicion.is_apart() {
            let has_room = |mut group: Group| group.add(suspicion);
            let joins = |runner: &Runner| {
                !runner.group.is_empty()
                    && has_room(runner.group)
                    && runner.runs.len() < self.in_flight_max
            };
            let find = |is_right: &dyn Fn(&Runner) -> bool| {
                let mut runners = self.runners.iter();
                runners.position(|it| it.takes_suspects(self.managed) && is_right(it))
            };
            return find(&joins).or_else(|| find(&|runner| runner.runs.is_empty()));
        }
        let free = |runner: &usize| self.runners[*runner].free(self.in_flight_max);
        let all = (0..self.runners.len()).rev();
        all.filter(|runner| free(runner) > 0).max_by_key(free)
    }

    /// Keeps a request until it can be sent.
    pub(super) fn hold(&mut self, at: Moment, tag: Tag, assignment: Assignment) {
        self.due
            .extend(assignment.deadline.map(|at| (at, Timer::Held(tag))));
        let assignment = Box::new(assignment);
        let held = ApartRequest {
            tag,
            assignment,
            at,
        };
        self.held.push_back(held);
    }

    /// Sends the requests that can be sent now.
    pub(super) fn place_held(&mut self, now: Time, actions: &mut PoolActions) {
        for held in std::mem::take(&mut self.held) {
            let Some(runner) = self.place(held.assignment.suspicion) else {
                self.held.push_back(held);
                continue;
            };
            self.forget_deadline(&held);
            let at = Moment {
                now,
                wall: held.at.wall.plus_ms(now.since_ms(held.at.now)),
            };
            self.send(at, runner, held.tag, *held.assignment, actions);
        }
    }

    /// Ends a request that was not sent. Does nothing if there is none.
    pub(super) fn end_held(&mut self, tag: Tag, end: End, actions: &mut PoolActions) {
        let place = self.held.iter().position(|held| held.tag == tag);
        let Some(held) = place.and_then(|place| self.held.remove(place)) else {
            return;
        };
        self.forget_deadline(&held);
        let runner = None;
        actions.effect(PoolEffect::Ended { tag, runner, end });
    }

    pub(super) fn on_held_due(&mut self, _now: Time, tag: Tag, actions: &mut PoolActions) {
        self.end_held(tag, End::Outcome(convert::not_ended_in_time()), actions);
    }

    /// Gives back all requests that were not sent.
    pub(super) fn give_back_held(&mut self, actions: &mut PoolActions) {
        while let Some(held) = self.held.front() {
            self.end_held(held.tag, End::NoRoom, actions);
        }
    }

    fn forget_deadline(&mut self, held: &ApartRequest) {
        if let Some(at) = held.assignment.deadline {
            self.due.remove(&(at, Timer::Held(held.tag)));
        }
    }

    /// Starts a runner in the place of each that is stuck and still has requests. If too many are
    /// stuck, ends the one that has been so for the longest time.
    pub(super) fn replace_stuck(&mut self, now: Time, actions: &mut PoolActions) {
        if self.stopping {
            return;
        }
        for stuck in 0..self.runners.len() {
            let runner = &self.runners[stuck];
            let is_ours = runner.duty == Duty::Regular && !runner.runs.is_empty();
            if !is_ours || runner.stuck_since.is_none() {
                continue;
            }
            if let Some(spare) = self.runners.iter().position(Runner::is_spare) {
                self.runners[stuck].duty = Duty::Extra;
                self.runners[spare].duty = Duty::Regular;
                self.arm_runner(spare, now);
                continue;
            }
            let extra = |runner: &usize| self.runners[*runner].duty == Duty::Extra;
            let since = |runner: &usize| self.runners[*runner].stuck_since;
            let all = 0..self.runners.len();
            let oldest = all.filter(|runner| extra(runner) && since(runner).is_some());
            if let Some(oldest) = oldest.min_by_key(since)
                && self.runners[oldest].state != State::Ending
            {
                self.end_runner(oldest, TERM_GRACE_MS, actions);
            }
        }
    }

    /// Returns for how many groups of suspects a runner would be started.
    pub(super) fn groups_waiting(&self) -> usize {
        if !self.managed || self.stopping {
            return 0;
        }
        let mut groups = Groups::new(self.regular);
        let held = self.held.iter();
        let last = held
            .filter_map(|held| groups.add(held.assignment.suspicion))
            .max();
        last.map_or(0, |last| last + 1)
    }

    /// Starts extra runners for groups of suspects, at most as many as there are regular runners, and ends those that
    /// no group waits for.
    pub(super) fn use_extra(&mut self, now: Time, actions: &mut PoolActions) {
        let serves =
            |runner: &Runner| runner.duty == Duty::Extra && !runner.is_spare() && !runner.draining;
        let is_busy = |runner: &&Runner| serves(runner) && !runner.runs.is_empty();
        let busy = self.runners.iter().filter(is_busy).count();
        let mut wanted = self.groups_waiting().min(self.regular.saturating_sub(busy));
        for runner in 0..self.runners.len() {
            let extra = &self.runners[runner];
            if !serves(extra) || !extra.runs.is_empty() {
                continue;
            }
            if wanted > 0 {
                wanted -= 1;
                continue;
            }
            match extra.state {
                State::Down => self.disarm_runner(runner),
                State::Up { .. } => self.drain(now, runner, actions),
                _ => {}
            }
        }
        for _ in 0..wanted {
            if let Some(spare) = self.runners.iter().position(Runner::is_spare) {
                self.arm_runner(spare, now);
            }
        }
    }
}
