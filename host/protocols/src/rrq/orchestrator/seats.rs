//! The lives of the runners: started, connected, condemned, ended, started again.

use host_core::time::Time;

use super::super::config::Dialect;
use super::seat::{CONNECT_MS_MAX, State, connect_backoff_ms};
use super::{Orchestrator, Purpose, RunnerAsk, TERM_GRACE_MS, Timer, Todo};
use crate::session::Link;
use host_core::port::Tag;

impl Orchestrator {
    pub(super) fn arm_seat(&mut self, seat: usize, at: Time) {
        self.disarm_seat(seat);
        self.seats[seat].timer = Some(at);
        self.due.insert((at, Timer::Seat(seat)));
    }

    fn disarm_seat(&mut self, seat: usize) {
        if let Some(at) = self.seats[seat].timer.take() {
            self.due.remove(&(at, Timer::Seat(seat)));
        }
    }

    pub(super) fn on_seat_due(&mut self, now: Time, seat: usize, todo: &mut Todo) {
        self.seats[seat].timer = None;
        if self.stopping {
            return;
        }
        match self.seats[seat].state {
            State::Down if self.managed => {
                self.seats[seat].state = State::Launching;
                todo.ask(RunnerAsk::Launch { seat });
            }
            State::Down => self.begin_connecting(now, seat, todo),
            State::Connecting { .. } => self.connect(seat, todo),
            State::Launching | State::Up { .. } | State::Dying => {}
        }
    }

    pub(super) fn on_launched(&mut self, now: Time, seat: usize, todo: &mut Todo) {
        if let Some(State::Launching) = self.seats.get(seat).map(|seat| seat.state) {
            self.begin_connecting(now, seat, todo);
        }
    }

    fn begin_connecting(&mut self, now: Time, seat: usize, todo: &mut Todo) {
        self.seats[seat].state = State::Connecting {
            give_up_at: now.plus_ms(CONNECT_MS_MAX),
            tries: 0,
        };
        self.connect(seat, todo);
    }

    fn connect(&mut self, seat: usize, todo: &mut Todo) {
        let link = self.make_link(match self.dialect {
            Dialect::Current => Purpose::Main { seat },
            Dialect::Documented => Purpose::Probe { seat },
        });
        todo.ask(RunnerAsk::Connect { seat, link });
    }

    /// The runner takes requests.
    pub(super) fn up(&mut self, seat: usize, main: Option<Link>) {
        if let State::Connecting { .. } = self.seats[seat].state {
            self.seats[seat].state = State::Up { main };
            self.seats[seat].condemned = false;
        }
    }

    pub(super) fn on_connect_failed(&mut self, now: Time, link: Link, todo: &mut Todo) {
        match self.links.remove(&link) {
            Some(Purpose::Main { seat } | Purpose::Probe { seat }) => {
                self.on_not_listening(now, seat, todo);
            }
            Some(Purpose::Request { tag, .. }) => {
                let seat = self.runs.get(&tag).map(|run| run.seat);
                self.lose(now, tag, "the runner cannot be reached", todo);
                if let Some(seat) = seat
                    && let State::Up { .. } = self.seats[seat].state
                {
                    self.reconnect(now, seat, todo);
                }
            }
            Some(Purpose::Cancel(_)) | None => {}
        }
    }

    fn on_not_listening(&mut self, now: Time, seat: usize, todo: &mut Todo) {
        let State::Connecting { give_up_at, tries } = self.seats[seat].state else {
            return;
        };
        if now >= give_up_at && self.managed {
            self.end_seat(seat, TERM_GRACE_MS, todo);
            return;
        }
        self.seats[seat].state = State::Connecting {
            give_up_at,
            tries: tries.saturating_add(1),
        };
        self.arm_seat(seat, now.plus_ms(connect_backoff_ms(tries)));
    }

    /// The connection is gone while the process may still be there.
    pub(super) fn reconnect(&mut self, now: Time, seat: usize, todo: &mut Todo) {
        match self.seats[seat].state {
            State::Up { .. } if self.seats[seat].condemned && self.managed => {
                self.end_if_condemned(now, seat, todo);
            }
            State::Up { .. } if !self.stopping => {
                self.seats[seat].state = State::Connecting {
                    give_up_at: now.plus_ms(CONNECT_MS_MAX),
                    tries: 0,
                };
                self.arm_seat(seat, now.plus_ms(connect_backoff_ms(0)));
            }
            _ => {}
        }
    }

    /// Nothing new goes to this runner; once its requests have ended it is restarted.
    pub(super) fn condemn(&mut self, now: Time, seat: usize, todo: &mut Todo) {
        self.seats[seat].condemned = true;
        self.end_if_condemned(now, seat, todo);
    }

    pub(super) fn end_if_condemned(&mut self, now: Time, seat: usize, todo: &mut Todo) {
        let place = &self.seats[seat];
        if !place.condemned || !place.runs.is_empty() {
            return;
        }
        if !matches!(place.state, State::Up { .. }) {
            return;
        }
        if self.managed {
            self.end_seat(seat, TERM_GRACE_MS, todo);
        } else {
            // What it still executes it cancels itself when its connection ends.
            self.drop_links(seat, todo);
            self.reconnect(now, seat, todo);
        }
    }

    pub(super) fn on_restart(&mut self, now: Time, seat: usize, todo: &mut Todo) {
        let Some(place) = self.seats.get_mut(seat) else {
            return;
        };
        match place.state {
            State::Up { .. } => self.condemn(now, seat, todo),
            // Whoever asks has perhaps just repaired it.
            State::Down if !self.stopping => {
                place.failures = 0;
                self.arm_seat(seat, now);
            }
            State::Connecting { .. } if self.managed => {
                place.condemned = true;
                place.failures = 0;
                self.end_seat(seat, TERM_GRACE_MS, todo);
            }
            State::Down | State::Launching | State::Connecting { .. } | State::Dying => {}
        }
    }

    /// Ends the runner of a seat, whatever it does.
    pub(super) fn end_seat(&mut self, seat: usize, grace_ms: u64, todo: &mut Todo) {
        self.disarm_seat(seat);
        let before = self.seats[seat].state;
        match before {
            State::Down => return,
            State::Dying => {}
            _ if self.managed => self.seats[seat].state = State::Dying,
            _ => self.seats[seat].state = State::Down,
        }
        self.drop_links(seat, todo);
        if self.managed {
            todo.ask(RunnerAsk::Kill { seat, grace_ms });
        }
    }

    /// Forgets the connections that are a seat's own, open or not yet.
    fn drop_links(&mut self, seat: usize, todo: &mut Todo) {
        self.links.retain(|link, purpose| match purpose {
            Purpose::Main { seat: of } | Purpose::Probe { seat: of } if *of == seat => {
                todo.close(*link);
                false
            }
            _ => true,
        });
    }

    pub(super) fn on_exited(&mut self, now: Time, seat: usize, todo: &mut Todo) {
        if self
            .seats
            .get(seat)
            .is_none_or(|seat| seat.state == State::Down)
        {
            return;
        }
        let tags: Vec<Tag> = self.seats[seat].runs.iter().copied().collect();
        for tag in tags {
            self.lose(now, tag, "the runner's process ended", todo);
        }
        self.drop_links(seat, todo);
        let place = &mut self.seats[seat];
        let planned = place.condemned;
        place.state = State::Down;
        place.condemned = false;
        let wait_ms = place.launch_backoff_ms();
        if !planned {
            place.failures = place.failures.saturating_add(1);
        }
        if self.stopping {
            self.disarm_seat(seat);
        } else {
            self.arm_seat(seat, now.plus_ms(wait_ms));
        }
    }
}
