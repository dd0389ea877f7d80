//! The session alone, in transcripts: dispatches, the answers to callbacks, and the answers of guests.

use host_core::failure::{Failure, FailureKind};
use host_core::json::JsonText;
use host_core::outcome::{Meter, Outcome, Progress};
use host_core::port::{Answer, Tag};
use host_core::time::Time;
use host_testing::transcript::{Stage, replay_all};
use host_wire_kit::http_client::BaseUrl;
use host_wire_kit::session::{Action, Actions, ActionsOf, Link, Moment, Session as _};
use serde_json::json;

use crate::messages::Secret;
use crate::worker::callbacks::CallbackAnswer;
use crate::worker::memory::Memory;
use crate::worker::order::Order;
use crate::worker::session::{DispatchEnd, Effect, Event, Setup, Worker};

struct Table {
    session: Worker,
    base: BaseUrl,
    now: Time,
}

#[test]
fn transcripts_are_replayed() {
    replay_all(
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts/worker"),
        || {
            let base: BaseUrl = "http://127.0.0.1:8080".parse().unwrap();
            let setup = Setup {
                name: "host-1".to_owned(),
                origins: vec![base.origin().clone()],
                logs_token: Some(Secret("api".to_owned())),
            };
            Table {
                session: Worker::new(setup, Memory::new(2, Vec::new())),
                base,
                now: Time(1_800_000_000_000),
            }
        },
    );
}

impl Stage for Table {
    fn play(&mut self, line: &str) -> Vec<String> {
        let words: Vec<&str> = line.split(' ').collect();
        let tag = |text| Tag(number(text));
        let event = match words[..] {
            ["peer>", from, "dispatch", task, handler, ref run @ ..] => {
                let (from, order) = (Link(number(from)), self.order(task, handler, run));
                let mut actions = Actions::default();
                self.session
                    .on_message(self.at(), from, order, &mut actions);
                return shown(actions);
            }
            ["peer>", "answers", of, ref words @ ..] => {
                Event::CallbackAnswer(tag(of), read_answer(words))
            }
            ["host>", "stored", of] => Event::Stored(tag(of)),
            ["host>", "guest", of, ref words @ ..] => Event::Guest(tag(of), guest(words)),
            ["time", ms] => return self.pass(number(ms)),
            ["stop"] => Event::Stop,
            _ => panic!("cannot read {line:?}"),
        };
        let mut actions = Actions::default();
        self.session.on_event(self.at(), event, &mut actions);
        shown(actions)
    }
}

impl Table {
    const fn at(&self) -> Moment {
        Moment {
            now: self.now,
            wall: self.now,
        }
    }

    /// A dispatch, which may name its workspace and run.
    fn order(&self, task: &str, handler: &str, run: &[&str]) -> Order {
        let mut envelope = json!({
            "taskId": task,
            "taskKey": handler,
            "attempt": 1,
            "callbackBaseUrl": self.base.to_string(),
            "taskToken": "tok",
            "tokenExpiresAt": "2027-01-15T09:00:00Z",
            "heartbeatIntervalMs": 10_000,
            "heartbeatTimeoutMs": 30_000,
            "cancelGracePeriodMs": 7_000,
        });
        if let [workspace, run] = *run {
            envelope["workspaceId"] = workspace.into();
            envelope["runId"] = run.into();
        }
        let origins = [self.base.origin().clone()];
        Order::read(envelope.to_string().as_bytes(), &origins).unwrap()
    }

    /// Passes time, and does what falls due on the way.
    fn pass(&mut self, ms: u64) -> Vec<String> {
        let until = self.now.plus_ms(ms);
        let mut lines = Vec::new();
        while let Some(due) = self.session.wakeup().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            let mut actions = Actions::default();
            self.session.on_wakeup(self.now, &mut actions);
            lines.extend(shown(actions));
        }
        self.now = until;
        lines
    }
}

fn number(text: &str) -> u64 {
    text.parse().unwrap()
}

fn read_answer(words: &[&str]) -> CallbackAnswer {
    match *words {
        [what @ ("ok" | "cancel")] => CallbackAnswer::Accepted {
            should_cancel: what == "cancel",
            server_time: None,
        },
        ["over"] => CallbackAnswer::Over(410),
        ["refused"] => read_answer(&["refused", "401", "no"]),
        ["refused", status, why] => CallbackAnswer::Refused {
            status: status.parse().unwrap(),
            why: why.to_owned(),
        },
        ["too", "large"] => CallbackAnswer::TooLarge,
        ["lost"] => CallbackAnswer::Again {
            after_ms: 0,
            why: "lost".to_owned(),
        },
        ["busy", after_ms] => CallbackAnswer::Again {
            after_ms: number(after_ms),
            why: "busy".to_owned(),
        },
        _ => panic!("cannot read {words:?}"),
    }
}

fn guest(words: &[&str]) -> Answer {
    let outcome = match *words {
        ["progressed", percent, message] => {
            return Answer::Progressed(Progress {
                percent: Some(percent.parse().unwrap()),
                message: message.to_owned(),
            });
        }
        ["busy"] => return Answer::Busy,
        ["completed", json] => Outcome::Completed {
            result: Some(JsonText(json.to_owned())),
        },
        ["cancelled"] => Outcome::Cancelled { partial: None },
        ["failed"] => Outcome::Failed(Failure::new(FailureKind::UserError, "no luck")),
        _ => panic!("cannot read {words:?}"),
    };
    Answer::Ended(outcome, Meter::default())
}

fn shown(mut actions: ActionsOf<Worker>) -> Vec<String> {
    let shown = |action: Action<DispatchEnd, Effect>| match action {
        Action::Send(link, done) => format!("peer< {} {done:?}", link.0),
        Action::Close(link) => format!("close {}", link.0),
        Action::Count(code) => format!("host< count {code}"),
        Action::Effect(Effect::Send(tag, it)) => format!("peer< {} {} {}", tag.0, it.path, it.body),
        Action::Effect(Effect::Abort(tag)) => format!("peer< abort {}", tag.0),
        Action::Effect(Effect::Start(tag, job)) => format!("host< start {} {}", tag.0, job.handler),
        Action::Effect(Effect::Stop(tag, grace_ms, why)) => {
            format!("host< stop {} in {grace_ms} ms: {}", tag.0, why.as_str())
        }
        Action::Effect(Effect::Keep(tag, _)) => format!("host< keep {}", tag.0),
        Action::Effect(Effect::Forget(tag, _)) => format!("host< forget {}", tag.0),
        Action::Effect(Effect::Warn(task, words)) => format!("host< warn {task}: {words}"),
        Action::Effect(Effect::WarnOfLog(task, why)) => format!("host< no log of {task}: {why}"),
    };
    actions.drain().map(shown).collect()
}
