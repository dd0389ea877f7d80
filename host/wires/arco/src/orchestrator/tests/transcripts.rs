//! The session alone, in transcripts: two slots of the worker `spark`, callbacks, and the host's reports.

use std::collections::BTreeMap;

use host_core::id::{JobId, LeaseId};
use host_core::job::{Cancel, State};
use host_core::json::JsonText;
use host_core::lease::{Hold, Revocation};
use host_core::policy::Policy;
use host_core::port::lease::{
    GrantedLease, LeaseError, LeaseMessage, LeaseRequest, Leases as _, Resumed, Standing, StoredJob,
};
use host_core::port::{Assignment, Tag};
use host_core::suspicion::Suspicion;
use host_core::time::Time;
use host_runtime::mailbox::respond;
use host_testing::LeaseHost;
use host_testing::transcript::{Stage, replay_all};
use host_wire_kit::http_client::{Answer, RequestError};
use host_wire_kit::leases::LeaseEvent;
use host_wire_kit::session::{Action, Actions, ActionsOf, Link, Moment, Session};
use uuid::Uuid;

use super::fixture::TIMES;
use crate::orchestrator::envelope;
use crate::orchestrator::read::{self, Callback};
use crate::orchestrator::session::{Effect, Event, Orchestrator};
use crate::settings::{OrchestratorConfig, RemoteWorker};
use crate::task_id::TaskId;

type Out = <Orchestrator as Session>::Out;

struct Table {
    session: Orchestrator,
    now: Time,
}

#[test]
fn transcripts_are_replayed() {
    replay_all(
        concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/transcripts/orchestrator"
        ),
        || {
            let worker = RemoteWorker {
                url: "http://127.0.0.1:9000".parse().unwrap(),
                secret: None,
                in_flight_max: 2,
            };
            let config = OrchestratorConfig {
                workers: BTreeMap::from([("spark".parse().unwrap(), worker)]),
                origins: Vec::new(),
                public_url: None,
                keys: None,
                times: TIMES,
            };
            Table {
                session: Orchestrator::new(&config),
                now: Time(1_800_000_000_000),
            }
        },
    );
}

impl Stage for Table {
    fn play(&mut self, line: &str) -> Vec<String> {
        let words: Vec<&str> = line.split(' ').collect();
        let mut actions = Actions::default();
        let at = Moment {
            now: self.now,
            wall: self.now,
        };
        let event = match words[..] {
            ["peer>", "answers", tag, status, after] => {
                Event::Dispatched(Tag(number(tag)), answer(status, after))
            }
            ["peer>", from, verb, job, ..] => {
                let body = line.splitn(5, ' ').nth(4).unwrap();
                let callback = callback(verb, job, body);
                self.session
                    .on_message(at, Link(number(from)), callback, &mut actions);
                return shown(actions);
            }
            ["time", ms] => return self.pass(number(ms)),
            ["stop"] => Event::Stop,
            ["host>", ref words @ ..] => self.event(words),
            _ => panic!("cannot read {line:?}"),
        };
        self.session.on_event(at, event, &mut actions);
        shown(actions)
    }
}

impl Table {
    fn event(&self, words: &[&str]) -> Event {
        let spark = "spark".parse().unwrap();
        match *words {
            ["starts"] => Event::Start("http://127.0.0.1:7700".parse().unwrap()),
            ["resumes", "nothing"] => Event::Resumed(spark, Ok(Vec::new())),
            ["resumes", "busy"] => Event::Resumed(spark, Err(LeaseError::Busy)),
            ["resumes", job, stage] => {
                let mut granted = self.granted(job);
                granted.ack_by = granted.ack_by.filter(|_| stage == "sent");
                let resumed = Resumed {
                    granted,
                    granted_at: self.now,
                    worker: "spark/1".to_owned(),
                    cancel: None,
                };
                Event::Resumed(spark, Ok(vec![resumed]))
            }
            ["grants", tag, "nothing"] => Event::Granted(Tag(number(tag)), spark, Vec::new()),
            ["grants", tag, ref jobs @ ..] => {
                let granted = jobs.iter().map(|job| self.granted(job)).collect();
                Event::Granted(Tag(number(tag)), spark, granted)
            }
            ["told", tag, words] => Event::Answered(Tag(number(tag)), standing(words)),
            ["read", tag, "nothing"] => Event::Read(Tag(number(tag)), Ok(None)),
            ["read", tag, job, stage] => {
                let kept = Box::new(kept(&self.granted(job), stage == "begun"));
                Event::Read(Tag(number(tag)), Ok(Some(kept)))
            }
            ["read", tag, "busy"] => Event::Read(Tag(number(tag)), Err(LeaseError::Busy)),
            ["cancels", job] => Event::Lease(LeaseEvent::Cancelled {
                job: job_id(job),
                lease: lease_id(job),
                grace_ms: 52_000,
            }),
            ["revokes", job] => Event::Lease(LeaseEvent::Revoked {
                job: job_id(job),
                lease: lease_id(job),
                why: Revocation::Expired,
            }),
            _ => panic!("cannot read {words:?}"),
        }
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

    /// The first attempt of a job. Its lease has the number of the job.
    fn granted(&self, job: &str) -> GrantedLease {
        GrantedLease {
            job: job_id(job),
            lease: lease_id(job),
            assignment: Assignment {
                request_id: String::new(),
                job_id: job_id(job).to_string(),
                handler: "key".to_owned(),
                params: JsonText("{}".to_owned()),
                queue: "default".to_owned(),
                priority: 5,
                attempt: 1,
                enqueued_at: self.now,
                timeout_ms: 30_000,
                deadline: None,
                trace: Vec::new(),
                attributes: Vec::new(),
                worker_id: "host".to_owned(),
                suspicion: Suspicion::NONE,
            },
            expires_at: Some(self.now.plus_ms(TIMES.heartbeat_timeout_ms)),
            ack_by: Some(self.now.plus_ms(TIMES.heartbeat_timeout_ms)),
        }
    }
}

/// A job as it is kept while its first attempt runs.
fn kept(granted: &GrantedLease, is_begun: bool) -> StoredJob {
    let model = LeaseHost::new();
    let id = model.enqueue(("spark", "key"), "{}", Policy::default(), &[]);
    let (respond, _answer) = respond();
    let request = LeaseRequest {
        executors: vec!["spark".parse().unwrap()],
        worker: "spark/1".to_owned(),
        slots: 1,
        hold: Hold::Ttl {
            ttl_ms: TIMES.heartbeat_timeout_ms,
        },
        wait_ms: 0,
        events: None,
    };
    model.first().lease(request, respond);
    let mut kept = model.kept(id).unwrap();
    kept.job.lifecycle.id = granted.job;
    let lease = kept.job.lifecycle.lease.as_mut().unwrap();
    lease.id = granted.lease;
    lease.ack_by = granted.ack_by.filter(|_| !is_begun);
    kept
}

fn number(text: &str) -> u64 {
    text.parse().unwrap()
}

fn job_id(text: &str) -> JobId {
    JobId(Uuid::from_u128(number(text).into()))
}

fn lease_id(text: &str) -> LeaseId {
    LeaseId(Uuid::from_u128(number(text).into()))
}

/// A callback whose token is for its task and attempt.
fn callback(verb: &str, job: &str, body: &str) -> Callback {
    let read = match verb {
        "started" => read::started,
        "heartbeat" => read::heartbeat,
        "completed" => read::completed,
        _ => panic!("{verb} is not a callback"),
    };
    let (job, message) = (job_id(job), read(body.as_bytes()).unwrap());
    Callback {
        task: Some(TaskId::Job(job)),
        scope: Some(envelope::scope(job, message.attempt, &[])),
        message: Ok(message),
    }
}

fn answer(status: &str, after: &str) -> Result<Answer, RequestError> {
    if status == "refused" {
        return Err(RequestError::Connect("connection refused".to_owned()));
    }
    let after = after.parse().ok();
    Ok(Answer {
        status: status.parse().unwrap(),
        retry_after: after.map(std::time::Duration::from_secs),
        body: "no".into(),
    })
}

fn standing(words: &str) -> Result<Standing, LeaseError> {
    let (state, is_cancelled) = match words {
        "running" => (State::Running, false),
        "cancel" => (State::Running, true),
        "over" => (State::Completed, false),
        "cancelled" => (State::Cancelled, false),
        "unacknowledged" => {
            return Err(LeaseError::NotAcknowledged);
        }
        "stale" => return Err(LeaseError::Unknown),
        "busy" => return Err(LeaseError::Busy),
        "often" => return Err(LeaseError::TooManyHeartbeats),
        _ => panic!("cannot read {words:?}"),
    };
    Ok(Standing {
        state,
        attempt: 1,
        cancel: is_cancelled.then_some(Cancel {
            requested_at: Time(0),
            reason: None,
            grace_ends_at: None,
        }),
        expires_at: None,
        granted_at: None,
        is_repeated: false,
    })
}

fn shown(mut actions: ActionsOf<Orchestrator>) -> Vec<String> {
    let short = |job: JobId| job.0.as_u128();
    let shown = |action: Action<Out, Effect>| match action {
        Action::Send(link, Ok(answer)) => {
            format!(
                "peer< {} 200 {}",
                link.0,
                serde_json::to_string(&answer).unwrap()
            )
        }
        Action::Send(link, Err(refused)) => {
            let body = serde_json::to_string(&refused.body).unwrap();
            format!("peer< {} {} {body}", link.0, refused.status)
        }
        Action::Effect(Effect::Dispatch(tag, it)) => {
            let (job, attempt) = (short(it.scope.job), it.scope.attempt);
            format!(
                "peer< dispatch {} to {}: job {job}, attempt {attempt}",
                tag.0, it.worker
            )
        }
        Action::Effect(Effect::Abort(tag)) => format!("peer< abort {}", tag.0),
        Action::Effect(Effect::Log(it)) => {
            let fields = it
                .line
                .fields
                .iter()
                .map(|(name, value)| format!(" {name}={}", value.plain()));
            let (job, fields) = (short(it.job), fields.collect::<String>());
            format!("host< log job {job}: {}{fields}", it.line.message)
        }
        Action::Effect(Effect::Resume(name)) => format!("host< resume {name}"),
        Action::Effect(Effect::Ask(tag, name, slots)) => {
            format!("host< ask {} for {name}, slots: {slots}", tag.0)
        }
        Action::Effect(Effect::Withdraw(tag)) => format!("host< withdraw {}", tag.0),
        Action::Effect(Effect::Read(tag, job)) => {
            format!("host< read {} job {}", tag.0, short(job))
        }
        Action::Effect(Effect::Send {
            tag, job, message, ..
        }) => format!(
            "host< tell {} job {}: {}",
            tag.0,
            short(job),
            text_of(&message)
        ),
        Action::Count(code) => format!("host< count {code}"),
        Action::Close(link) => format!("close {}", link.0),
    };
    actions.drain().map(shown).collect()
}

fn text_of(message: &LeaseMessage) -> String {
    match message {
        LeaseMessage::Ack => "ack".to_owned(),
        LeaseMessage::Heartbeat { progress: None, .. } => "heartbeat".to_owned(),
        LeaseMessage::Heartbeat {
            progress: Some(progress),
            ..
        } => format!("heartbeat {:?} {}", progress.percent, progress.message),
        LeaseMessage::Complete { outcome, .. } => match outcome {
            host_core::outcome::Outcome::Failed(failure) => format!("failed: {}", failure.message),
            outcome => outcome.as_str().to_owned(),
        },
        LeaseMessage::CancelAck { .. } => "cancelled".to_owned(),
        LeaseMessage::CancelReceived { grace_ms } => {
            format!("cancel received, grace {grace_ms} ms")
        }
        LeaseMessage::GiveBack { begun } => format!("give back, begun: {begun}"),
        LeaseMessage::Exited(_) => "exited".to_owned(),
        LeaseMessage::Log { .. } => "log".to_owned(),
    }
}
