//! The orchestrator's transcripts.

use bytes::{Bytes, BytesMut};
use host_core::port::{End, Tag};
use host_testing::transcript::{Stage, replay_all};
use host_wire_kit::session::{Action, Actions, ActionsOf, Link, Moment, Session};
use host_wire_kit::stream::StreamSession as _;

use super::super::{Orchestrator, PoolEffect, PoolEvent};
use super::fixture::{START, assignment, config};
use crate::config::Dialect;
use crate::messages::Out;

#[test]
fn transcripts() {
    replay_all(
        concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/transcripts/orchestrator"
        ),
        || Table {
            pool: None,
            at: Moment {
                now: START,
                wall: START,
            },
            shown: (0, 0),
            capacity: 0,
        },
    );
}

struct Table {
    pool: Option<Orchestrator>,
    at: Moment,
    /// The free capacity and the executions in flight that were shown last.
    shown: (usize, usize),
    capacity: usize,
}

impl Stage for Table {
    fn play(&mut self, line: &str) -> Vec<String> {
        let mut actions = Actions::default();
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        if let ["pool", dialect, runners] = words[..] {
            let dialect = match dialect {
                "documented" => Dialect::Documented,
                _ => Dialect::Current,
            };
            let config = config(runners.parse().unwrap(), 2, dialect);
            self.pool = Some(Orchestrator::new(&config, START));
            return Vec::new();
        }
        let pool = self.pool.as_mut().expect("the first line makes a pool");
        let number = |text: &str| text.parse::<u64>().unwrap();
        match words[..] {
            ["open", on] => pool.on_open(self.at.now, Link(number(on)), &mut actions),
            ["close", on] => pool.on_closed(self.at.now, Link(number(on)), &mut actions),
            ["time", ms] => return self.pass(number(ms)),
            ["peer>", on, text] => {
                let message = Orchestrator::read(Ok(Bytes::copy_from_slice(text.as_bytes())));
                pool.on_message(self.at, Link(number(on)), message, &mut actions);
            }
            ["host>", ..] => pool.on_event(self.at, event(&line[6..]), &mut actions),
            _ => panic!("cannot read {line:?}"),
        }
        self.show(&mut actions)
    }
}

impl Table {
    fn pass(&mut self, ms: u64) -> Vec<String> {
        let mut lines = Vec::new();
        for _ in 0..=ms {
            let pool = self.pool.as_mut().unwrap();
            if pool.wakeup().is_some_and(|due| due <= self.at.now) {
                let mut actions = Actions::default();
                pool.on_wakeup(self.at.now, &mut actions);
                lines.extend(self.show(&mut actions));
            }
            self.at.now = self.at.now.plus_ms(1);
            self.at.wall = self.at.wall.plus_ms(1);
        }
        lines
    }

    /// Shows the actions, and then the free capacity if it has changed.
    fn show(&mut self, actions: &mut ActionsOf<Orchestrator>) -> Vec<String> {
        let mut lines = Vec::new();
        for action in actions.drain() {
            match action {
                Action::Effect(PoolEffect::Capacity(attempts)) => self.capacity = attempts,
                other => lines.push(shown(other)),
            }
        }
        let pool = self.pool.as_ref().unwrap();
        let (free, in_flight) = (pool.free(), pool.runs.len());
        assert_eq!(self.capacity, free + in_flight, "{lines:?}");
        if self.shown != (free, in_flight) {
            self.shown = (free, in_flight);
            lines.push(format!("host< room for {free}, {in_flight} in flight"));
        }
        lines
    }
}

fn shown(action: Action<Out, PoolEffect>) -> String {
    match action {
        Action::Effect(PoolEffect::Capacity(_)) => unreachable!("shown by the table"),
        Action::Send(link, message) => {
            let mut out = BytesMut::new();
            Orchestrator::write(&message, &mut out);
            format!(
                "peer< {} {}",
                link.0,
                std::str::from_utf8(&out[4..]).unwrap()
            )
        }
        Action::Close(link) => format!("peer< {} is closed", link.0),
        Action::Count(code) => format!("host< counts {code}"),
        Action::Effect(PoolEffect::Launch { runner }) => format!("host< launch seat {runner}"),
        Action::Effect(PoolEffect::Connect { runner, link }) => {
            format!("host< connect to seat {runner} as {}", link.0)
        }
        Action::Effect(PoolEffect::Kill { runner, grace_ms }) => {
            format!("host< end seat {runner} in {grace_ms} ms")
        }
        Action::Effect(PoolEffect::Ended { tag, end, .. }) => match end {
            End::Outcome(outcome) => format!("host< ended {}: {outcome:?}", tag.0),
            End::Lost(why) => format!("host< lost {}: {why}", tag.0),
            End::LostWithOthers { why, .. } => format!("host< lost {} with others: {why}", tag.0),
            End::NoRoom => format!("host< no room for {}", tag.0),
        },
    }
}

/// Reads `start TAG TIMEOUT_MS`, `cancel TAG GRACE_MS`, `launched SEAT`, `exited SEAT`,
/// `unreachable LINK`, `restart SEAT` or `stop`.
fn event(text: &str) -> PoolEvent {
    let words: Vec<&str> = text.split(' ').collect();
    let number = |text: &str| text.parse::<u64>().unwrap();
    let runner = |text: &str| text.parse::<usize>().unwrap();
    match words[..] {
        ["start", tag, ms] => {
            let tag = number(tag);
            PoolEvent::Start(Tag(tag), Box::new(assignment(tag, number(ms))))
        }
        ["cancel", tag, grace_ms] => PoolEvent::Cancel {
            tag: Tag(number(tag)),
            grace_ms: number(grace_ms),
        },
        ["launched", of] => PoolEvent::Launched { runner: runner(of) },
        ["exited", of] => PoolEvent::Exited { runner: runner(of) },
        ["restart", of] => PoolEvent::Restart { runner: runner(of) },
        ["unreachable", link] => PoolEvent::ConnectFailed {
            link: Link(number(link)),
        },
        ["stop"] => PoolEvent::Stop,
        _ => panic!("cannot read {text:?}"),
    }
}
