//! The orchestrator's transcripts.

use bytes::{Bytes, BytesMut};

use super::super::{End, Orchestrator, RunnerAsk, RunnerSaid};
use super::fixture::{START, assignment, config};
use crate::rrq::config::Dialect;
use crate::rrq::transcript::{Stage, replay_all};
use crate::session::{Action, Actions, ActionsOf, Link, Moment, Session};
use host_core::port::Tag;

#[test]
fn transcripts() {
    replay_all("orchestrator", || Table {
        pool: None,
        at: Moment {
            now: START,
            wall: START,
        },
    });
}

struct Table {
    pool: Option<Orchestrator>,
    at: Moment,
}

impl Stage for Table {
    fn play(&mut self, line: &str) -> Vec<String> {
        let mut todo = Actions::default();
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        if let ["pool", dialect, seats] = words[..] {
            let dialect = match dialect {
                "documented" => Dialect::Documented,
                _ => Dialect::Current,
            };
            let config = config(seats.parse().unwrap(), 2, dialect);
            self.pool = Some(Orchestrator::new(&config, START));
            return Vec::new();
        }
        let pool = self.pool.as_mut().expect("the first line makes a pool");
        let number = |text: &str| text.parse::<u64>().unwrap();
        match words[..] {
            ["open", on] => pool.on_open(self.at.now, Link(number(on)), &mut todo),
            ["close", on] => pool.on_closed(self.at.now, Link(number(on)), &mut todo),
            ["time", ms] => return self.pass(number(ms)),
            ["peer>", on, text] => {
                let message = Orchestrator::read(Ok(Bytes::copy_from_slice(text.as_bytes())));
                pool.on_message(self.at, Link(number(on)), message, &mut todo);
            }
            ["host>", ..] => pool.on_said(self.at, said(&line[6..]), &mut todo),
            _ => panic!("cannot read {line:?}"),
        }
        shown(&mut todo)
    }
}

impl Table {
    fn pass(&mut self, ms: u64) -> Vec<String> {
        let pool = self.pool.as_mut().unwrap();
        let mut lines = Vec::new();
        for _ in 0..=ms {
            if pool.wakeup().is_some_and(|due| due <= self.at.now) {
                let mut todo = Actions::default();
                pool.on_wakeup(self.at.now, &mut todo);
                lines.extend(shown(&mut todo));
            }
            self.at.now = self.at.now.plus_ms(1);
            self.at.wall = self.at.wall.plus_ms(1);
        }
        lines
    }
}

fn shown(todo: &mut ActionsOf<Orchestrator>) -> Vec<String> {
    let show = |action| match action {
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
        Action::Ask(RunnerAsk::Launch { seat }) => format!("host< launch seat {seat}"),
        Action::Ask(RunnerAsk::Connect { seat, link }) => {
            format!("host< connect to seat {seat} as {}", link.0)
        }
        Action::Ask(RunnerAsk::Kill { seat, grace_ms }) => {
            format!("host< end seat {seat} in {grace_ms} ms")
        }
        Action::Ask(RunnerAsk::Room(room)) => {
            format!("host< room for {}, {} in flight", room.free, room.in_flight)
        }
        Action::Ask(RunnerAsk::Ended { tag, end, .. }) => match end {
            End::Outcome(outcome) => format!("host< ended {}: {outcome:?}", tag.0),
            End::Lost(why) => format!("host< lost {}: {why}", tag.0),
            End::NoRoom => format!("host< no room for {}", tag.0),
        },
    };
    todo.drain().map(show).collect()
}

/// Reads `start TAG TIMEOUT_MS`, `cancel TAG GRACE_MS`, `launched SEAT`, `exited SEAT`,
/// `unreachable LINK`, `restart SEAT` or `stop`.
fn said(text: &str) -> RunnerSaid {
    let words: Vec<&str> = text.split(' ').collect();
    let number = |text: &str| text.parse::<u64>().unwrap();
    let seat = |text: &str| text.parse::<usize>().unwrap();
    match words[..] {
        ["start", tag, ms] => {
            let tag = number(tag);
            RunnerSaid::Start(Tag(tag), Box::new(assignment(tag, number(ms))))
        }
        ["cancel", tag, grace_ms] => RunnerSaid::Cancel {
            tag: Tag(number(tag)),
            grace_ms: number(grace_ms),
        },
        ["launched", of] => RunnerSaid::Launched { seat: seat(of) },
        ["exited", of] => RunnerSaid::Exited { seat: seat(of) },
        ["restart", of] => RunnerSaid::Restart { seat: seat(of) },
        ["unreachable", link] => RunnerSaid::ConnectFailed {
            link: Link(number(link)),
        },
        ["stop"] => RunnerSaid::Stop,
        _ => panic!("cannot read {text:?}"),
    }
}
