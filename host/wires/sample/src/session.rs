//! The rules, for both roles: each side of a connection may send runs and answer those of the other.
//! Pure.

use std::collections::BTreeMap;

use bytes::{BufMut as _, Bytes, BytesMut};
use host_core::failure::{Failure, FailureKind};
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_core::port::{Answer, Assignment, End, ForeignJob, Stop, Tag};
use host_core::time::Time;
use serde::de::IgnoredAny;
use serde_json::from_str;

use host_wire_kit::session::{ActionsOf, Link, Moment, Session};
use host_wire_kit::stream::{Endless, Lines, StreamSession};

const IN_FLIGHT_MAX: usize = 16;

/// What runs here for the peers, and what runs there for us.
#[derive(Default)]
pub(super) struct Peers {
    /// Whose a run is: the connection and the peer's id.
    here: BTreeMap<Tag, (Link, String)>,
    /// When an attempt is given up, and as what. Its id is its tag.
    there: BTreeMap<Tag, (Time, Outcome)>,
    pub(super) link: Option<Link>,
    tags_made: u64,
}

pub(super) enum Event {
    Answer(Tag, Answer),
    Start(Tag, Assignment),
    Cancel(Tag, u64),
    ShutDown,
}

pub(super) enum Effect {
    Run(Tag, Box<ForeignJob>),
    Stop(Tag, Stop),
    Capacity(usize),
    Ended(Tag, End),
}

impl Peers {
    fn run(&mut self, link: Link, id: &str, rest: &str) -> Option<Effect> {
        let (handler, params) = rest.split_once(' ')?;
        from_str::<serde_json::Map<_, _>>(params).ok()?;
        let (run, handler) = ((link, id.to_owned()), handler.parse().ok()?);
        if self.here.values().any(|other| *other == run) {
            return None;
        }
        let tag = Tag(self.tags_made);
        self.tags_made += 1;
        self.here.insert(tag, run);
        let job = ForeignJob::new(Self::WIRE, id, handler, JsonText(params.to_owned()));
        Some(Effect::Run(tag, Box::new(job)))
    }

    fn stop(&self, actions: &mut ActionsOf<Self>, why: Stop, is_it: impl Fn(Link, &str) -> bool) {
        let runs = self.here.iter().filter(|(_, (link, id))| is_it(*link, id));
        runs.for_each(|(tag, _)| actions.effect(Effect::Stop(*tag, why)));
    }

    fn ended(&mut self, id: &str, text: &str, is_ok: bool) -> Option<Effect> {
        let tag = Tag(id.parse().ok()?);
        // One that was given up is not known any more.
        self.there.remove(&tag)?;
        let outcome = match from_str::<IgnoredAny>(text) {
            Ok(_) if is_ok => Outcome::Completed {
                result: Some(JsonText(text.to_owned())),
            },
            _ => Outcome::Failed(Failure::new(FailureKind::UserError, text)),
        };
        Some(Effect::Ended(tag, End::Outcome(outcome)))
    }
}

impl StreamSession for Peers {
    type Framing = Lines<{ 64 << 10 }>;

    fn read(line: Result<Bytes, Endless>) -> String {
        let text = line
            .ok()
            .and_then(|line| String::from_utf8(line.into()).ok());
        text.unwrap_or_default()
    }

    fn write(line: &String, out: &mut BytesMut) {
        out.put(line.replace(['\r', '\n'], " ").as_bytes());
        out.put_u8(b'\n');
    }
}

impl Session for Peers {
    const WIRE: &'static str = super::NAME;
    type In = String;
    type Out = String;
    type Effect = Effect;
    type Event = Event;

    fn on_open(&mut self, _: Time, link: Link, actions: &mut ActionsOf<Self>) {
        self.link = Some(link);
        actions.effect(Effect::Capacity(IN_FLIGHT_MAX));
    }

    fn on_message(&mut self, _: Moment, from: Link, line: String, actions: &mut ActionsOf<Self>) {
        let (word, rest) = line.split_once(' ').unwrap_or_default();
        let (id, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let effect = match word {
            "RUN" => self.run(from, id, rest),
            "STOP" => {
                return self.stop(actions, Stop::Cancelled, |of, its| of == from && its == id);
            }
            "OK" => self.ended(id, rest, true),
            "ERR" => self.ended(id, rest, false),
            _ => None,
        };
        match effect {
            Some(effect) => actions.effect(effect),
            None => actions.count("E_LINE"),
        }
    }

    fn on_event(&mut self, at: Moment, event: Event, actions: &mut ActionsOf<Self>) {
        match (event, self.link) {
            (Event::ShutDown, _) => self.stop(actions, Stop::ShuttingDown, |_, _| true),
            (Event::Answer(tag, answer), _) => {
                let (word, text) = match answer {
                    Answer::Ended(Outcome::Completed { result }, _) => {
                        ("OK", result.unwrap_or_else(JsonText::null).0)
                    }
                    Answer::Ended(Outcome::Failed(failure), _) => ("ERR", failure.message),
                    Answer::Ended(..) => ("ERR", "it was stopped".to_owned()),
                    Answer::Busy => ("ERR", "there is no room".to_owned()),
                    Answer::Began | Answer::Progressed(_) | Answer::Logged { .. } => return,
                };
                if let Some((link, id)) = self.here.remove(&tag) {
                    actions.send(link, format!("{word} {id} {text}"));
                }
            }
            (Event::Start(tag, it), Some(link)) if self.there.len() < IN_FLIGHT_MAX => {
                let failure = Failure::new(FailureKind::TimedOut, "the worker does not answer");
                let due = at.now.plus_ms(it.timeout_ms);
                self.there.insert(tag, (due, Outcome::Failed(failure)));
                let params = it.params.as_str();
                actions.send(link, format!("RUN {} {} {params}", tag.0, it.handler));
            }
            (Event::Start(tag, _), _) => actions.effect(Effect::Ended(tag, End::NoRoom)),
            (Event::Cancel(tag, grace_ms), link) => {
                if let (Some((due, outcome)), Some(link)) = (self.there.get_mut(&tag), link) {
                    *due = at.now.plus_ms(grace_ms).min(*due);
                    *outcome = Outcome::Cancelled { partial: None };
                    actions.send(link, format!("STOP {}", tag.0));
                }
            }
        }
    }

    fn on_closed(&mut self, _: Time, link: Link, actions: &mut ActionsOf<Self>) {
        self.link = None;
        self.stop(actions, Stop::Disconnected, |of, _| of == link);
        actions.effect(Effect::Capacity(0));
        for (tag, _) in std::mem::take(&mut self.there) {
            let end = End::Lost("the connection has ended".to_owned());
            actions.effect(Effect::Ended(tag, end));
        }
    }

    fn wakeup(&self) -> Option<Time> {
        self.there.values().map(|(due, _)| *due).min()
    }

    fn on_wakeup(&mut self, now: Time, actions: &mut ActionsOf<Self>) {
        for (tag, (_, outcome)) in self.there.extract_if(.., |_, (due, _)| *due <= now) {
            actions.effect(Effect::Ended(tag, End::Outcome(outcome)));
        }
    }

    fn is_idle(&self) -> bool {
        self.here.is_empty() && self.there.is_empty()
    }
}
