//! The runner's transcripts: what it sends, and what happens with guests and files.

use host_core::failure::{Failure, FailureKind};
use host_core::json::JsonText;
use host_core::outcome::{Meter, Outcome, Progress};
use host_core::port::{Answer, Tag};
use host_core::time::Time;

use super::super::super::client::sort;
use super::super::super::exchange::{Kind, Response};
use super::super::super::lease;
use super::super::super::results::Results;
use super::super::super::words::Dialect;
use super::super::{Act, Session};
use super::logs;
use crate::transcript::{Stage, replay_all};

const START: Time = Time(1_767_513_600_000);

#[test]
fn transcripts() {
    replay_all("delta", "worker", || Table {
        session: None,
        now: START,
    });
}

struct Table {
    session: Option<Session>,
    now: Time,
}

impl Stage for Table {
    fn play(&mut self, line: &str) -> Vec<String> {
        let wall = self.now.to_rfc3339();
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        if let ["peer>", from @ ("lease" | "file"), ..] = words[..] {
            let text = line.splitn(3, ' ').nth(2).unwrap();
            let lease = lease::read(text.as_bytes()).unwrap();
            let is_network = from == "lease";
            let results = Results::new((!is_network).then_some("/logs/job.log".as_ref()));
            let modes = (is_network, true);
            let mut session =
                Session::new(self.now, lease, "r1", Dialect::Documented, modes, results);
            let acts = session.begin(self.now, &wall);
            self.session = Some(session);
            return shown(acts);
        }
        let session = self.session.as_mut().expect("the first line makes it");
        match words[..] {
            ["peer>", of, "none"] => {
                shown(session.on_response(self.now, &wall, kind(of), &Response::Again))
            }
            ["peer>", of, status, body] => {
                let response = sort(kind(of), status.parse().unwrap(), body.as_bytes());
                shown(session.on_response(self.now, &wall, kind(of), &response))
            }
            ["host>", tag, ..] => {
                let said = line.splitn(3, ' ').nth(2).unwrap();
                let tag = Tag(tag.parse().unwrap());
                shown(session.on_guest(self.now, &wall, tag, answer(said)))
            }
            ["stop"] => shown(session.shut_down()),
            ["time", ms] => self.pass(ms.parse().unwrap()),
            _ => panic!("cannot read {line:?}"),
        }
    }
}

impl Table {
    /// Passes time, and does what falls due on the way.
    fn pass(&mut self, ms: u64) -> Vec<String> {
        let until = self.now.plus_ms(ms);
        let session = self.session.as_mut().unwrap();
        let mut lines = Vec::new();
        while let Some(due) = session.wakeup().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            let wall = self.now.to_rfc3339();
            lines.extend(shown(session.on_wakeup(self.now, &wall)));
        }
        self.now = until;
        lines
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

fn answer(said: &str) -> Answer {
    let (what, text) = said.split_once(' ').unwrap();
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
        _ => panic!("cannot read {said:?}"),
    };
    Answer::Ended(outcome, Meter::default())
}

fn shown(acts: Vec<Act>) -> Vec<String> {
    let shown = |act: Act| match act {
        Act::Send { kind, body, .. } => format!("peer< {kind:?} {body}"),
        Act::Upload { offset, text, .. } => format!("peer< Log {offset} {text:?}"),
        Act::Start(tag, job) => format!("host< start {} {} {}", tag.0, job.handler, job.params.0),
        Act::Stop(tag, grace_ms, why) => {
            format!("host< stop {} in {grace_ms} ms: {}", tag.0, why.as_str())
        }
        Act::Log(_, lines) => format!("host< {} lines into the log", lines.len()),
        Act::Keep(path, text) => format!("host< {} bytes into {path}", text.len()),
        Act::Done(done) => format!("host< {done:?}"),
    };
    acts.into_iter().map(shown).collect()
}
