//! The orchestrator's transcripts.

use bytes::{BufMut as _, Bytes, BytesMut};
use host_core::id::LeaseId;
use host_core::outcome::Outcome;
use host_core::port::lease::End;
use host_testing::transcript::{Stage, replay_all};
use host_wire_kit::session::{Action, Actions, ActionsOf, Link, Moment, Session};
use host_wire_kit::stream::StreamSession as _;
use uuid::Uuid;

use super::super::{Ask, Effect, Event, Orchestrator};
use super::fixture::{START, config, granted};
use crate::frame::{Dialect, dialect_of, text_of};
use crate::messages::Out;

#[test]
fn transcripts() {
    replay_all(
        concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/transcripts/orchestrator"
        ),
        || Table {
            session: None,
            at: Moment {
                now: START,
                wall: START,
            },
        },
    );
}

struct Table {
    session: Option<Orchestrator>,
    at: Moment,
}

impl Stage for Table {
    fn play(&mut self, line: &str) -> Vec<String> {
        let mut actions = Actions::default();
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        let number = |text: &str| text.parse::<u64>().unwrap();
        if let ["hold", ms] = words[..] {
            self.session = Some(Orchestrator::new(config(number(ms)), self.at));
            return Vec::new();
        }
        let session = self.session.as_mut().expect("the first line makes it");
        match words[..] {
            ["open", on] => session.on_open(self.at.now, Link(number(on)), &mut actions),
            ["close", on] => session.on_closed(self.at.now, Link(number(on)), &mut actions),
            ["time", ms] => {
                self.at.now = self.at.now.plus_ms(number(ms));
                self.at.wall = self.at.wall.plus_ms(number(ms));
                if session.wakeup().is_some_and(|due| due <= self.at.now) {
                    session.on_wakeup(self.at.now, &mut actions);
                }
            }
            ["peer>", on, dialect, text] => {
                let message = Orchestrator::read(Ok(frame(dialect, text)));
                session.on_message(self.at, Link(number(on)), message, &mut actions);
            }
            ["host>", ..] => session.on_event(self.at, event(&line[6..]), &mut actions),
            _ => panic!("cannot read {line:?}"),
        }
        shown(&mut actions)
    }
}

fn frame(dialect: &str, text: &str) -> Bytes {
    let mut frame = BytesMut::new();
    if dialect == "frame" {
        frame.put_u32(u32::try_from(text.len()).unwrap());
    }
    frame.put(text.as_bytes());
    frame.freeze()
}

fn shown(actions: &mut ActionsOf<Orchestrator>) -> Vec<String> {
    actions.drain().map(show).collect()
}

fn lease_number(lease: LeaseId) -> u128 {
    lease.0.as_u128() >> 64
}

fn show(action: Action<Out, Effect>) -> String {
    match action {
        Action::Send(link, message) => {
            let mut out = BytesMut::new();
            Orchestrator::write(&message, &mut out);
            let dialect = match dialect_of(&out) {
                Dialect::Lines => "line",
                Dialect::Framed => "frame",
            };
            let text = std::str::from_utf8(text_of(&out)).unwrap();
            format!("peer< {} {dialect} {}", link.0, text.trim_end())
        }
        Action::Close(link) => format!("peer< {} is closed", link.0),
        Action::Count(code) => format!("host< counts {code}"),
        Action::Effect(Effect::Ask {
            ask,
            worker,
            wait_ms,
        }) => format!("host< ask {} for {worker}, {wait_ms} ms", ask.0),
        Action::Effect(Effect::Withdraw(ask)) => format!("host< withdraw {}", ask.0),
        Action::Effect(Effect::End(ended)) => {
            let end = match ended.end {
                End::Outcome(Outcome::Completed { result }) => {
                    format!("completed {}", result.unwrap().as_str())
                }
                End::Outcome(Outcome::Failed(failure)) => format!("failed: {}", failure.message),
                End::Outcome(Outcome::Cancelled { .. }) => "cancelled".to_owned(),
                End::Lost(_) => "given back".to_owned(),
                End::NoRoom => "not begun".to_owned(),
                other => format!("{other:?}"),
            };
            format!("host< lease {}: {end}", lease_number(ended.lease))
        }
        Action::Effect(Effect::Warn(link, refusal)) => {
            format!(
                "host< warns about {}: {} [{}]",
                link.0, refusal.message, refusal.start
            )
        }
        Action::Effect(Effect::Note(worker, text)) => format!("host< notes: {worker} {text}"),
    }
}

/// Reads `grant ASK JOB LEASE`, `nothing ASK`, `cancel LEASE GRACE_MS`, `revoke LEASE`, `stop` or `cut`.
fn event(text: &str) -> Event {
    let words: Vec<&str> = text.split(' ').collect();
    let number = |text: &str| text.parse::<u64>().unwrap();
    let lease = |text: &str| LeaseId(Uuid::from_u128(u128::from(number(text)) << 64));
    match words[..] {
        ["grant", ask, job, lease] => {
            let granted = granted(number(job), number(lease));
            Event::Answered(Ask(number(ask)), Some(granted))
        }
        ["nothing", ask] => Event::Answered(Ask(number(ask)), None),
        ["cancel", of, grace_ms] => Event::Cancelled {
            lease: lease(of),
            grace_ms: number(grace_ms),
        },
        ["revoke", of] => Event::Revoked { lease: lease(of) },
        ["stop"] => Event::Stop,
        ["cut"] => Event::Cut,
        _ => panic!("cannot read {text:?}"),
    }
}
