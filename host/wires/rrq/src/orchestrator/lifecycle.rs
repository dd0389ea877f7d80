//! The life cycle of runners: started, connected, drained, ended and started again.

use host_core::time::Time;
use host_wire_kit::session::Link;

use super::super::config::Dialect;
use super::runner::{CONNECT, CONNECT_MS_MAX, Duty, LAUNCH, State};
use super::{Orchestrator, PoolActions, PoolEffect, Purpose, TERM_GRACE_MS, Timer};

impl Orchestrator {
    pub(super) fn arm_runner(&mut self, runner: usize, at: Time) {
        self.disarm_runner(runner);
        self.runners[runner].timer = Some(at);
        self.due.insert((at, Timer::Runner(runner)));
    }

    pub(super) fn disarm_runner(&mut self, runner: usize) {
        if let Some(at) = self.runners[runner].timer.take() {
            self.due.remove(&(at, Timer::Runner(runner)));
        }
    }

    pub(super) fn on_runner_due(&mut self, now: Time, runner: usize, actions: &mut PoolActions) {
        self.runners[runner].timer = None;
        if self.stopping {
            return;
        }
        match self.runners[runner].state {
            State::Down if self.managed => {
                self.runners[runner].state = State::Launching;
                actions.effect(PoolEffect::Launch { runner });
            }
            State::Down => self.begin_connecting(now, runner, actions),
            State::Connecting { .. } => self.connect(runner, actions),
            State::Launching | State::Up { .. } | State::Ending => {}
        }
    }

    pub(super) fn on_launched(&mut self, now: Time, runner: usize, actions: &mut PoolActions) {
        if let Some(State::Launching) = self.runners.get(runner).map(|runner| runner.state) {
            self.begin_connecting(now, runner, actions);
        }
    }

    fn begin_connecting(&mut self, now: Time, runner: usize, actions: &mut PoolActions) {
        self.runners[runner].state = State::Connecting {
            give_up_at: now.plus_ms(CONNECT_MS_MAX),
            tries: 0,
        };
        self.connect(runner, actions);
    }

    fn connect(&mut self, runner: usize, actions: &mut PoolActions) {
        let link = self.make_link(match self.dialect {
            Dialect::Current => Purpose::Main { runner },
            Dialect::Documented => Purpose::Probe { runner },
        });
        actions.effect(PoolEffect::Connect { runner, link });
    }

    /// Marks the runner as ready for requests, unless it is to be restarted.
    pub(super) fn up(
        &mut self,
        now: Time,
        runner: usize,
        main: Option<Link>,
        actions: &mut PoolActions,
    ) {
        if let State::Connecting { .. } = self.runners[runner].state {
            self.runners[runner].state = State::Up { main };
            self.end_if_drained(now, runner, actions);
        }
    }

    pub(super) fn on_connect_failed(&mut self, now: Time, link: Link, actions: &mut PoolActions) {
        match self.links.remove(&link) {
            Some(Purpose::Main { runner } | Purpose::Probe { runner }) => {
                self.on_not_listening(now, runner, actions);
            }
            Some(Purpose::Request { tag, .. }) => {
                let runner = self.runs.get(&tag).map(|run| run.runner);
                self.not_sent(now, tag, actions);
                if let Some(runner) = runner
                    && let State::Up { .. } = self.runners[runner].state
                {
                    self.reconnect(now, runner, actions);
                }
            }
            Some(Purpose::Cancel(_)) | None => {}
        }
    }

    fn on_not_listening(&mut self, now: Time, runner: usize, actions: &mut PoolActions) {
        let State::Connecting { give_up_at, tries } = self.runners[runner].state else {
            return;
        };
        if now >= give_up_at && self.managed {
            self.end_runner(runner, TERM_GRACE_MS, actions);
            return;
        }
        self.runners[runner].state = State::Connecting {
            give_up_at,
            tries: tries.saturating_add(1),
        };
        self.arm_runner(runner, now.plus_ms(CONNECT.nth_ms(tries)));
    }

    /// Connects again after a connection was lost, because the process may still run.
    pub(super) fn reconnect(&mut self, now: Time, runner: usize, actions: &mut PoolActions) {
        match self.runners[runner].state {
            State::Up { .. } if self.runners[runner].draining && self.managed => {
                self.end_if_drained(now, runner, actions);
            }
            State::Up { .. } if !self.stopping => {
                self.runners[runner].state = State::Connecting {
                    give_up_at: now.plus_ms(CONNECT_MS_MAX),
                    tries: 0,
                };
                self.arm_runner(runner, now.plus_ms(CONNECT.nth_ms(0)));
            }
            _ => {}
        }
    }

    /// Gives this runner no new requests, and restarts it when its requests have ended.
    pub(super) fn drain(&mut self, now: Time, runner: usize, actions: &mut PoolActions) {
        self.runners[runner].draining = true;
        self.end_if_drained(now, runner, actions);
    }

    pub(super) fn end_if_drained(&mut self, now: Time, runner: usize, actions: &mut PoolActions) {
        let drained = &self.runners[runner];
        if !drained.draining || !drained.runs.is_empty() {
            return;
        }
        if !matches!(drained.state, State::Up { .. }) {
            return;
        }
        if self.managed {
            self.end_runner(runner, TERM_GRACE_MS, actions);
        } else {
            // The runner cancels its running requests when its connection ends.
            self.drop_links(runner, actions);
            self.fresh(runner);
            match self.runners[runner].duty {
                Duty::Regular => self.reconnect(now, runner, actions),
                Duty::Extra => self.runners[runner].state = State::Down,
            }
        }
    }

    pub(super) fn on_restart(&mut self, now: Time, runner: usize, actions: &mut PoolActions) {
        let Some(asked) = self.runners.get_mut(runner) else {
            return;
        };
        match asked.state {
            State::Up { .. } => self.drain(now, runner, actions),
            // Start it now: the operator may just have fixed the cause.
            State::Down if !self.stopping && !asked.is_spare() => {
                asked.failures = 0;
                self.arm_runner(runner, now);
            }
            State::Connecting { .. } if self.managed => {
                asked.draining = true;
                asked.failures = 0;
                self.end_runner(runner, TERM_GRACE_MS, actions);
            }
            State::Down | State::Launching | State::Connecting { .. } | State::Ending => {}
        }
    }

    /// Ends a runner in any state.
    pub(super) fn end_runner(&mut self, runner: usize, grace_ms: u64, actions: &mut PoolActions) {
        self.disarm_runner(runner);
        let before = self.runners[runner].state;
        match before {
            State::Down => return,
            State::Ending => {}
            _ if self.managed => self.runners[runner].state = State::Ending,
            _ => self.runners[runner].state = State::Down,
        }
        self.drop_links(runner, actions);
        if self.managed {
            actions.effect(PoolEffect::Kill { runner, grace_ms });
        }
    }

    /// Closes the main and probe connections of a runner, open or not.
    fn drop_links(&mut self, runner: usize, actions: &mut PoolActions) {
        self.links.retain(|link, purpose| match purpose {
            Purpose::Main { runner: of } | Purpose::Probe { runner: of } if *of == runner => {
                actions.close(*link);
                false
            }
            _ => true,
        });
    }

    pub(super) fn on_exited(&mut self, now: Time, runner: usize, actions: &mut PoolActions) {
        if self
            .runners
            .get(runner)
            .is_none_or(|runner| runner.state == State::Down)
        {
            return;
        }
        self.lose_all(now, runner, "the runner's process ended", actions);
        self.drop_links(runner, actions);
        let ended = &mut self.runners[runner];
        let planned = ended.draining;
        ended.state = State::Down;
        let wait_ms = LAUNCH.nth_ms(ended.failures);
        if !planned {
            ended.failures = ended.failures.saturating_add(1);
        }
        let is_wanted = ended.duty == Duty::Regular || self.groups_waiting() > 0;
        self.fresh(runner);
        if self.stopping || !is_wanted {
            self.disarm_runner(runner);
        } else {
            self.arm_runner(runner, now.plus_ms(wait_ms));
        }
    }

    /// Forgets why a runner was to end.
    fn fresh(&mut self, runner: usize) {
        let runner = &mut self.runners[runner];
        runner.draining = false;
        runner.stuck_since = None;
    }
}
