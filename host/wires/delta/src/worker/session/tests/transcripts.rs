//! The runner's transcripts: what it sends, and what happens with guests and files.

use host_core::failure::{Failure, FailureKind};
use host_core::json::JsonText;
use host_core::outcome::{Meter, Outcome, Progress};
use host_core::port::{Answer, Tag};
use host_core::time::Time;
use host_testing::transcript::{Stage, replay_all};
use host_wire_kit::session::{Moment, Session as _};

use super::super::super::client::sort;
use super::super::super::exchange::{Kind, Response};
use super::super::super::lease;
use super::super::super::results::Results;
use super::super::super::words::Dialect;
use super::super::{Actions, Effect, Event, LeaseSession, Mode};
use super::effects;
use super::network::logs;

const START: Time = Time(1_767_513_600_000);

#[test]
fn transcripts() {
    replay_all(
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts/worker"),
        || Table {
            session: None,
            now: START,
        },
    );
}

struct Table {
    session: Option<LeaseSession>,
    now: Time,
}

impl Stage for Table {
    fn play(&mut self, line: &str) -> Vec<String> {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        let event = match words[..] {
            ["peer>", from @ ("lease" | "file"), ..] => {
                let text = line.splitn(3, ' ').nth(2).unwrap();
                let lease = lease::read(text.as_bytes()).unwrap();
                let is_network = from == "lease";
                let results = Results::new((!is_network).then_some("/logs/job.log".as_ref()));
                let mode = Mode {
                    dialect: Dialect::Documented,
                    is_network,
                };
                self.session = Some(LeaseSession::new(self.now, lease, "r1", mode, results));
                Event::Begin
            }
            ["peer>", of, "none"] => Event::Answered(kind(of), Response::Again),
            ["peer>", of, status, body] => {
                let response = sort(kind(of), status.parse().unwrap(), body.as_bytes());
                Event::Answered(kind(of), response)
            }
            ["host>", tag, ..] => {
                let words = line.splitn(3, ' ').nth(2).unwrap();
                Event::Guest(Tag(tag.parse().unwrap()), answer(words))
            }
            ["stop"] => Event::Stop,
            ["time", ms] => return self.pass(ms.parse().unwrap()),
            _ => panic!("cannot read {line:?}"),
        };
        let (now, mut todo) = (self.now, Actions::default());
        let session = self.session.as_mut().expect("the first line makes it");
        session.on_event(Moment { now, wall: now }, event, &mut todo);
        shown(effects(todo))
    }
}

impl Table {
    /// Passes time, and does what falls due on the way.
    fn pass(&mut self, ms: u64) -> Vec<String> {
        let until = self.now.plus_ms(ms);
        let session = self.session.as_mut().unwrap();
        let mut todo = Actions::default();
        while let Some(due) = session.wakeup().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            session.on_wakeup(self.now, &mut todo);
        }
        self.now = until;
        shown(effects(todo))
    }
}

fn kind(name: &str) -> Kind {
    let mut all = [
        Kind::Ack,
        Kind::Heartbeat,
        Kind::Complete,
        Kind::CancelAck,
        Kind::Log,
    ]
    .into_iter();
    all.find(|kind| format!("{kind:?}") == name).unwrap()
}

fn answer(words: &str) -> Answer {
    let (what, text) = words.split_once(' ').unwrap();
    let json = || Some(JsonText(text.to_owned()));
    let outcome = match what {
        "logged" => return logs(text),
        "progressed" => {
            let (percent, message) = text.split_once(' ').unwrap();
            return Answer::Progressed(Progress {
                percent: Some(percent.parse().unwrap()),
                message: message.to_owned(),
            });
        }
        "completed" => Outcome::Completed { result: json() },
        "cancelled" => Outcome::Cancelled { partial: json() },
        "timed_out" => Outcome::Failed(Failure::new(FailureKind::TimedOut, text)),
        _ => panic!("cannot read {words:?}"),
    };
    Answer::Ended(outcome, Meter::default())
}

fn shown(effects: Vec<Effect>) -> Vec<String> {
    let shown = |effect: Effect| match effect {
        Effect::Send { kind, body, .. } => format!("peer< {kind:?} {body}"),
        Effect::Upload { offset, text, .. } => format!("peer< Log {offset} {text:?}"),
        Effect::WarnOfLog(why) => format!("host< sends no more of the log: {why}"),
        Effect::Start(tag, job) => {
            format!("host< start {} {} {}", tag.0, job.handler, job.params.0)
        }
        Effect::Stop(tag, grace_ms, why) => {
            format!("host< stop {} in {grace_ms} ms: {}", tag.0, why.as_str())
        }
        Effect::Log(_, lines) => format!("host< {} lines into the log", lines.len()),
        Effect::Keep(path, text) => format!("host< {} bytes into {path}", text.len()),
        Effect::Done(done) => format!("host< {done:?}"),
    };
    effects.into_iter().map(shown).collect()
}
