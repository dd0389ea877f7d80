//! The worker's transcripts.

use bytes::{BufMut as _, Bytes, BytesMut};
use host_core::port::Tag;
use host_testing::transcript::{Stage, replay_all};
use host_wire_kit::session::{Action, Actions, Link, Moment, Session};
use host_wire_kit::stream::StreamSession as _;

use super::fixture::{START, done, failed, setup};
use crate::frame::{Dialect, dialect_of, text_of};
use crate::messages::Out;
use crate::worker::{Effect, Event, Worker};

#[test]
fn transcripts() {
    replay_all(
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts/worker"),
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
    session: Option<Worker>,
    at: Moment,
}

impl Stage for Table {
    fn play(&mut self, line: &str) -> Vec<String> {
        let mut actions = Actions::default();
        let words: Vec<&str> = line.splitn(3, ' ').collect();
        let number = |text: &str| text.parse::<u64>().unwrap();
        if let ["worker", dialect] | ["worker", dialect, "bd"] = words[..] {
            let dialect = match dialect {
                "frame" => Dialect::Framed,
                _ => Dialect::Lines,
            };
            self.session = Some(Worker::new(setup(words.len() == 3, dialect), self.at));
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
            ["peer>", dialect, text] => {
                let message = Worker::read(Ok(frame(dialect, text)));
                session.on_message(self.at, Link(0), message, &mut actions);
            }
            ["host>", ..] => session.on_event(self.at, event(&line[6..]), &mut actions),
            _ => panic!("cannot read {line:?}"),
        }
        actions.drain().map(show).collect()
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

fn show(action: Action<Out, Effect>) -> String {
    match action {
        Action::Send(_, message) => {
            let mut out = BytesMut::new();
            Worker::write(&message, &mut out);
            let dialect = match dialect_of(&out) {
                Dialect::Lines => "line",
                Dialect::Framed => "frame",
            };
            let text = std::str::from_utf8(text_of(&out)).unwrap();
            format!("peer< {dialect} {}", text.trim_end())
        }
        Action::Close(_) => "peer< is closed".to_owned(),
        Action::Count(code) => format!("host< counts {code}"),
        Action::Effect(Effect::Start(tag, job)) => {
            format!(
                "host< start {} {} {}",
                tag.0,
                job.handler,
                job.params.as_str()
            )
        }
        Action::Effect(Effect::Stop(tag, why)) => format!("host< stop {}: {why:?}", tag.0),
        Action::Effect(Effect::Call(call, issue_id)) => format!("host< {call:?} {issue_id}"),
        Action::Effect(Effect::WarnOfFrames) => "host< warns that it tries frames".to_owned(),
    }
}

/// Reads `done TAG`, `failed TAG MESSAGE`, `busy TAG`, `called`, `uncalled WHY`, `stop` or `again`.
fn event(text: &str) -> Event {
    let words: Vec<&str> = text.splitn(3, ' ').collect();
    let tag = |text: &str| Tag(text.parse().unwrap());
    match words[..] {
        ["done", of] => Event::Ended(tag(of), Some(done())),
        ["failed", of, message] => Event::Ended(tag(of), Some(failed(message))),
        ["busy", of] => Event::Ended(tag(of), None),
        ["called"] => Event::Called(Ok(())),
        ["uncalled", why] => Event::Called(Err(why.to_owned())),
        ["stop"] => Event::Stop,
        ["again"] => Event::Again,
        _ => panic!("cannot read {text:?}"),
    }
}
