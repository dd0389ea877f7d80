//! The worker alone, without sockets, processes and disks: what comes over the network is handed in, and
//! what goes out is returned.

use std::collections::BTreeMap;

use host_core::failure::{Failure, FailureKind};
use host_core::outcome::{Meter, Outcome};
use host_core::port::{Answer as Guest, Tag};
use host_core::time::Time;
use host_wire_kit::http_client::{Answer, BaseUrl, RequestError};
use host_wire_kit::session::{Action, Actions, ActionsOf, Link, Moment, Session as _};

use crate::worker::callbacks::read_answer;
use crate::worker::memory::Memory;
use crate::worker::order::Order;
use crate::worker::session::{DispatchEnd, Effect, Event, Setup, Worker};

/// What goes out.
pub(crate) enum Outgoing {
    Callback {
        tag: u64,
        path: String,
        token: String,
        body: String,
    },
    /// The answer to a dispatch.
    Answer(u64, u16),
}

/// A worker with a sandbox: `echo` returns its params, all else fails.
pub(crate) struct Side {
    session: Worker,
    base: BaseUrl,
    /// The tasks of guests, and when they end.
    guests: BTreeMap<Tag, (String, Time, Guest)>,
    /// How long the next guests run, in milliseconds.
    pub(crate) guest_ms: u64,
    /// How often each task was executed.
    pub(crate) executed: BTreeMap<String, u32>,
    sent: Vec<Outgoing>,
}

impl Side {
    pub(crate) fn start(base: &str, concurrency: usize) -> Self {
        let base: BaseUrl = base.parse().unwrap();
        let setup = Setup {
            name: "host-1".to_owned(),
            origins: vec![base.origin().clone()],
            logs_token: None,
        };
        Self {
            session: Worker::new(setup, Memory::new(concurrency, Vec::new())),
            base,
            guests: BTreeMap::new(),
            guest_ms: 0,
            executed: BTreeMap::new(),
            sent: Vec::new(),
        }
    }

    pub(crate) fn due(&self) -> Option<Time> {
        let guests = self.guests.values().map(|(_, at, _)| *at);
        guests.chain(self.session.wakeup()).min()
    }

    /// A dispatch arrives.
    pub(crate) fn dispatch(&mut self, at: Moment, link: u64, body: &[u8]) {
        let order = Order::read(body, &[self.base.origin().clone()]).unwrap();
        let mut actions = Actions::default();
        self.session.on_message(at, Link(link), order, &mut actions);
        self.carry_out(at, actions);
    }

    /// The answer to a callback arrives, or does not.
    pub(crate) fn answered(&mut self, at: Moment, tag: u64, answer: Option<(u16, String)>) {
        let lost = || RequestError::Broken("reset".to_owned());
        let answer = answer.ok_or_else(lost).map(|(status, body)| Answer {
            status,
            retry_after: None,
            body: body.into(),
        });
        self.event(at, Event::CallbackAnswer(Tag(tag), read_answer(answer)));
    }

    /// Does what is due, and returns what went out since the last call.
    pub(crate) fn go_on(&mut self, at: Moment) -> Vec<Outgoing> {
        let ended: Vec<_> = self
            .guests
            .extract_if(.., |_, (_, end, _)| *end <= at.now)
            .collect();
        for (tag, (_, _, answer)) in ended {
            self.event(at, Event::Guest(tag, answer));
        }
        if self.session.wakeup().is_some_and(|due| due <= at.now) {
            let mut actions = Actions::default();
            self.session.on_wakeup(at.now, &mut actions);
            self.carry_out(at, actions);
        }
        std::mem::take(&mut self.sent)
    }

    fn event(&mut self, at: Moment, event: Event) {
        let mut actions = Actions::default();
        self.session.on_event(at, event, &mut actions);
        self.carry_out(at, actions);
    }

    fn carry_out(&mut self, at: Moment, mut actions: ActionsOf<Worker>) {
        let actions: Vec<_> = actions.drain().collect();
        for action in actions {
            match action {
                Action::Send(link, done) => {
                    let status = match done {
                        DispatchEnd::Over => 200,
                        DispatchEnd::Refused(_) => 500,
                        DispatchEnd::NotBegun
                        | DispatchEnd::Running
                        | DispatchEnd::Full
                        | DispatchEnd::Stopping => 503,
                    };
                    self.sent.push(Outgoing::Answer(link.0, status));
                }
                Action::Effect(effect) => self.effect(at, effect),
                Action::Close(_) | Action::Count(_) => {}
            }
        }
    }

    fn effect(&mut self, at: Moment, effect: Effect) {
        match effect {
            Effect::Start(tag, job) => {
                let mut running = self.guests.values();
                assert!(
                    running.all(|(task, ..)| *task != job.external_id),
                    "{} runs twice concurrently",
                    job.external_id
                );
                *self.executed.entry(job.external_id.clone()).or_default() += 1;
                let outcome = match job.handler.as_str() {
                    "echo" => Outcome::Completed {
                        result: Some(job.params),
                    },
                    _ => Outcome::Failed(Failure::new(FailureKind::FuelExhausted, "no fuel left")),
                };
                let ended = Guest::Ended(outcome, Meter::default());
                let end = at.now.plus_ms(self.guest_ms);
                self.guests.insert(tag, (job.external_id, end, ended));
            }
            Effect::Stop(tag, ..) => {
                let stopped = Guest::Ended(Outcome::Cancelled { partial: None }, Meter::default());
                if let Some(guest) = self.guests.get_mut(&tag) {
                    (guest.1, guest.2) = (at.now, stopped);
                }
            }
            Effect::Send(tag, callback) => self.sent.push(Outgoing::Callback {
                tag: tag.0,
                path: callback.path,
                token: callback.token.expose().to_owned(),
                body: callback.body,
            }),
            Effect::Keep(tag, _) | Effect::Forget(tag, _) => self.event(at, Event::Stored(tag)),
            // What was sent may arrive all the same.
            Effect::Abort(_) | Effect::Warn(..) | Effect::WarnOfLog(..) => {}
        }
    }
}
