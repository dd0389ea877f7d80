//! The worker's transcripts.

use bytes::{Bytes, BytesMut};
use host_core::failure::{FAILURE_KINDS, Failure};
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_core::port::Tag;
use host_testing::transcript::{Stage, replay_all};
use host_wire_kit::session::{Action, Actions, ActionsOf, Link, Moment, Session};
use host_wire_kit::stream::StreamSession as _;

use super::fixture::{START, WALL_AHEAD_MS};
use crate::worker::{ExecutionEnd, Worker, WorkerEffect, WorkerEvent};

#[test]
fn transcripts() {
    replay_all(
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts/worker"),
        || Table {
            worker: Worker::default(),
            at: Moment {
                now: START,
                wall: START.plus_ms(WALL_AHEAD_MS),
            },
        },
    );
}

struct Table {
    worker: Worker,
    at: Moment,
}

impl Stage for Table {
    fn play(&mut self, line: &str) -> Vec<String> {
        let mut actions = Actions::default();
        let (word, rest) = line.split_once(' ').unwrap();
        match word {
            "open" => self.worker.on_open(self.at.now, link(rest), &mut actions),
            "close" => self.worker.on_closed(self.at.now, link(rest), &mut actions),
            "time" => return self.pass(rest.parse().unwrap()),
            "peer>" => {
                let (number, text) = rest.split_once(' ').unwrap();
                let message = Worker::read(Ok(Bytes::copy_from_slice(text.as_bytes())));
                self.worker
                    .on_message(self.at, link(number), message, &mut actions);
            }
            "host>" => self.worker.on_event(self.at, event(rest), &mut actions),
            _ => panic!("cannot read {line:?}"),
        }
        self.shown(&mut actions)
    }
}

impl Table {
    fn pass(&mut self, ms: u64) -> Vec<String> {
        let mut lines = Vec::new();
        for _ in 0..ms {
            self.at.now = self.at.now.plus_ms(1);
            self.at.wall = self.at.wall.plus_ms(1);
            if self.worker.wakeup().is_some_and(|due| due <= self.at.now) {
                let mut actions = Actions::default();
                self.worker.on_wakeup(self.at.now, &mut actions);
                lines.extend(self.shown(&mut actions));
            }
        }
        lines
    }

    fn shown(&self, actions: &mut ActionsOf<Worker>) -> Vec<String> {
        let show = |action| match action {
            Action::Send(link, message) => {
                let mut out = BytesMut::new();
                Worker::write(&message, &mut out);
                format!(
                    "peer< {} {}",
                    link.0,
                    std::str::from_utf8(&out[4..]).unwrap()
                )
            }
            Action::Close(link) => format!("peer< {} is closed", link.0),
            Action::Count(code) => format!("host< counts {code}"),
            Action::Effect(WorkerEffect::Start(tag, job)) => {
                let within = job.deadline.map(|deadline| deadline.since_ms(self.at.now));
                format!(
                    "host< start {} {} {} of {:?}, attempt {}, within {within:?} ms, trace {:?}",
                    tag.0, job.handler, job.params.0, job.external_id, job.attempt, job.trace
                )
            }
            Action::Effect(WorkerEffect::Stop { tag, grace_ms, why }) => {
                format!("host< stop {} in {grace_ms} ms: {}", tag.0, why.as_str())
            }
        };
        actions.drain().map(show).collect()
    }
}

fn link(number: &str) -> Link {
    Link(number.parse().unwrap())
}

/// Reads `stop`, `0 busy`, `0 completed JSON`, `0 retry MS WHY`, `0 cancelled` or `0 KIND WHY`.
fn event(text: &str) -> WorkerEvent {
    let Some((tag, text)) = text.split_once(' ') else {
        return WorkerEvent::Stop;
    };
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let outcome = match word {
        "busy" => return WorkerEvent::Answer(Tag(tag.parse().unwrap()), ExecutionEnd::Busy),
        "completed" => Outcome::Completed {
            result: Some(JsonText(rest.to_owned())),
        },
        "retry" => {
            let (ms, reason) = rest.split_once(' ').unwrap();
            Outcome::Retry {
                reason: reason.to_owned(),
                after_ms: Some(ms.parse().unwrap()),
            }
        }
        "cancelled" => Outcome::Cancelled { partial: None },
        kind => {
            let known = FAILURE_KINDS.into_iter().find(|it| it.as_str() == kind);
            Outcome::Failed(Failure::new(known.unwrap(), rest))
        }
    };
    WorkerEvent::Answer(Tag(tag.parse().unwrap()), ExecutionEnd::Ended(outcome))
}
