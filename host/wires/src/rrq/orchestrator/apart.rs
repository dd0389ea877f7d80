//! Requests of jobs that were lost together with others, and runners that are stuck: who is kept
//! apart from whom, and which extra runners are started for it.

use host_core::port::{Assignment, End, Tag};
use host_core::time::Time;

use super::super::convert;
use super::runner::{Duty, Runner, State};
use super::{Orchestrator, PoolActions, PoolEffect, TERM_GRACE_MS, Timer};
use crate::kit::session::Moment;

/// How long a job that was lost once is kept apart from others that were, in milliseconds. What ends
/// a runner mostly does so soon.
pub(super) const APART_MS: u64 = 10_000;

/// From how many losses on a job runs alone.
const LOSSES_UNTIL_ALONE: u8 = 2;

/// With whom a request may be at one runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SharingRule {
    Any,
    /// With none that was lost before and began a short time ago.
    NoSuspect,
    Nobody,
}

impl SharingRule {
    pub(super) const fn of(assignment: &Assignment) -> Self {
        match assignment.losses {
            0 => Self::Any,
            LOSSES_UNTIL_ALONE.. => Self::Nobody,
            _ => Self::NoSuspect,
        }
    }
}

/// A request that was not sent because it has to be kept apart.
#[derive(Debug)]
pub(super) struct Held {
    tag: Tag,
    assignment: Box<Assignment>,
    /// When it came.
    at: Moment,
}

impl Orchestrator {
    /// Returns the runner for a request: of those that may have it, the one with the most room.
    pub(super) fn place(&self, now: Time, sharing: SharingRule) -> Option<usize> {
        if self.stopping {
            return None;
        }
        let waits_alone = || self.held.iter().any(Held::is_alone);
        let may_have = |runner: usize| {
            let runner = &self.runners[runner];
            match sharing {
                // Somebody else's runner has to become idle for those that must be alone.
                SharingRule::Any => self.managed || !waits_alone(),
                SharingRule::NoSuspect => !runner.runs.iter().any(|tag| self.is_apart(now, *tag)),
                SharingRule::Nobody => runner.is_open() && runner.runs.is_empty(),
            }
        };
        let free = |runner: usize| match (sharing, self.runners[runner].duty) {
            // A job that must be alone does not keep the others from their runner.
            (SharingRule::Nobody, Duty::Regular) if self.managed => 0,
            (SharingRule::Nobody, _) => 1,
            _ => self.runners[runner].free(self.in_flight_max),
        };
        (0..self.runners.len())
            .rev()
            .filter(|runner| free(*runner) > 0 && may_have(*runner))
            .max_by_key(|runner| free(*runner))
    }

    fn is_apart(&self, now: Time, tag: Tag) -> bool {
        let run = self.runs.get(&tag);
        run.is_some_and(|run| run.apart_until.is_some_and(|until| now < until))
    }

    /// Keeps a request until it can be sent.
    pub(super) fn hold(&mut self, at: Moment, tag: Tag, assignment: Assignment) {
        self.due
            .extend(assignment.deadline.map(|at| (at, Timer::Held(tag))));
        let assignment = Box::new(assignment);
        let held = Held {
            tag,
            assignment,
            at,
        };
        self.held.push_back(held);
    }

    /// Sends the requests that can be sent now.
    pub(super) fn place_held(&mut self, now: Time, actions: &mut PoolActions) {
        for held in std::mem::take(&mut self.held) {
            let sharing = SharingRule::of(&held.assignment);
            let Some(runner) = self.place(now, sharing) else {
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

    fn forget_deadline(&mut self, held: &Held) {
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

    /// Returns whether a request waits for a runner of its own.
    pub(super) fn wants_extra(&self) -> bool {
        self.managed && !self.stopping && self.held.iter().any(Held::is_alone)
    }

    /// Starts an extra runner if a request must be alone, and ends it when none does.
    pub(super) fn use_extra(&mut self, now: Time, actions: &mut PoolActions) {
        if self.wants_extra() {
            let serves = |runner: &Runner| {
                runner.duty == Duty::Extra && !runner.is_spare() && !runner.draining
            };
            let spare = self.runners.iter().position(Runner::is_spare);
            if let Some(spare) = spare.filter(|_| !self.runners.iter().any(serves)) {
                self.arm_runner(spare, now);
            }
            return;
        }
        for runner in 0..self.runners.len() {
            let extra = &self.runners[runner];
            if extra.duty != Duty::Extra || !extra.runs.is_empty() {
                continue;
            }
            match extra.state {
                State::Down => self.disarm_runner(runner),
                State::Up { .. } if !extra.draining => self.drain(now, runner, actions),
                _ => {}
            }
        }
    }
}

impl Held {
    fn is_alone(&self) -> bool {
        SharingRule::of(&self.assignment) == SharingRule::Nobody
    }
}
