//! Tests that the auditors record violations and pass everything on.

use std::sync::Arc;

use parking_lot::Mutex;
use uuid::Uuid;

use super::{ExecuteAudit, LeaseAudit};
use crate::{FakeExecutor, Run};
use host_core::failure::{Failure, FailureKind};
use host_core::id::{JobId, LeaseId};
use host_core::job::State;
use host_core::json::JsonText;
use host_core::lease::{Fence, Hold, Revocation};
use host_core::name::Name;
use host_core::outcome::{Meter, Outcome, Progress};
use host_core::port::lease::{
    AttemptEnd, End, GrantedLease, LeaseError, LeaseEvents, LeaseMessage, LeaseRequest, Leases,
    Respond, Resumed, Standing, StoredJob,
};
use host_core::port::{Answer, Answers, Assignment, Execute, ForeignJob, Reply, Stop, Tag};
use host_core::time::Time;

fn assignment() -> Assignment {
    crate::assignment("echo", "{}", 1_000)
}

/// Counts the calls it gets.
#[derive(Default)]
struct Received(Mutex<Vec<String>>);

impl Received {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().push(what.into());
    }

    fn list(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

fn halfway() -> Progress {
    Progress {
        percent: Some(50.0),
        message: "half".to_owned(),
    }
}

impl Answers for Received {
    fn answer(self: Arc<Self>, _: Tag, answer: Answer) {
        self.note(match answer {
            Answer::Began => "began",
            Answer::Progressed(_) => "progressed",
            Answer::Logged { .. } => "logged",
            Answer::Ended(..) => "ended",
            Answer::Busy => "busy",
        });
    }
}

/// `work` reports and completes, `hold` runs on.
fn executor() -> Arc<FakeExecutor> {
    FakeExecutor::new(|job, reply| match job.handler.as_str() {
        "work" => {
            reply.progressed(halfway());
            reply.logged(Time(0), Vec::new());
            Run::Ends(Outcome::Completed { result: None }, Meter::default())
        }
        "hold" => Run::IgnoresStops,
        _ => Run::by_handler(job),
    })
}

fn foreign(handler: &str, wants_log: bool) -> ForeignJob {
    let params = JsonText("{}".to_owned());
    let job = ForeignJob::new("test", "1", handler.parse().unwrap(), params);
    ForeignJob { wants_log, ..job }
}

#[test]
fn execute_notes_stops_and_answers_out_of_their_place() {
    let received = Arc::new(Received::default());
    let executing = executor();
    let audit = ExecuteAudit::new(Arc::<FakeExecutor>::clone(&executing));
    let reply = |tag| Reply::new(Tag(tag), Arc::<Received>::clone(&received) as _);
    audit.start(foreign("work", true), reply(1));
    audit.start(foreign("busy", false), reply(2));
    audit.start(foreign("lost", false), reply(3));
    audit.stop(Tag(3), 5, Stop::Cancelled);
    audit.assert_settled();
    let passed_on = ["progressed", "logged", "ended", "busy", "ended"];
    assert_eq!(received.list(), passed_on);
    audit.stop(Tag(4), 5, Stop::Cancelled);
    audit.start(foreign("work", false), reply(5));
    audit.start(foreign("hold", false), reply(6));
    assert_eq!(
        audit.violations(),
        [
            "a stop of Tag(4), which was never started",
            "log lines of Tag(5), which wants none",
        ]
    );
    let failure = Failure::new(FailureKind::UserError, "no");
    executing.take(Tag(6)).failed(failure);
    assert_eq!(received.list().len(), passed_on.len() + 4);
}

#[test]
#[should_panic(expected = "no last answer was given to [Tag(1)]")]
fn execute_is_not_settled_while_a_job_runs() {
    let executing = executor();
    let audit = ExecuteAudit::new(Arc::<FakeExecutor>::clone(&executing));
    let reply = Reply::new(Tag(1), Arc::new(Received::default()));
    audit.start(foreign("hold", false), reply);
    audit.assert_settled();
}

const JOB: JobId = JobId(Uuid::from_u128(1));
const LEASE: LeaseId = LeaseId(Uuid::from_u128(2));

/// Grants the same lease to every worker. After it was completed, refuses all messages but
/// heartbeats.
#[derive(Default)]
struct Granting(Mutex<bool>);

impl Leases for Granting {
    fn lease(&self, _: LeaseRequest, respond: Box<dyn Respond<Vec<GrantedLease>>>) {
        let granted = GrantedLease {
            job: JOB,
            lease: LEASE,
            assignment: assignment(),
            expires_at: None,
            ack_by: None,
        };
        let _ = respond.respond(vec![granted]).is_err();
    }

    fn end(&self, _: AttemptEnd) {}

    fn send(
        &self,
        _: JobId,
        _: Fence,
        message: LeaseMessage,
        respond: Box<dyn Respond<Result<Standing, LeaseError>>>,
    ) {
        let mut completed = self.0.lock();
        let accepted = !*completed || matches!(message, LeaseMessage::Heartbeat { .. });
        *completed |= matches!(message, LeaseMessage::Complete { .. });
        let standing = Standing {
            state: State::Running,
            attempt: 1,
            cancel: None,
            expires_at: None,
            granted_at: None,
            is_repeated: false,
        };
        let answer = if accepted {
            Ok(standing)
        } else {
            Err(LeaseError::Unknown)
        };
        let _ = respond.respond(answer).is_err();
    }

    fn resume(
        &self,
        _: Name,
        _: Arc<dyn LeaseEvents>,
        respond: Box<dyn Respond<Result<Vec<Resumed>, LeaseError>>>,
    ) {
        let granted = GrantedLease {
            job: JOB,
            lease: LEASE,
            assignment: assignment(),
            expires_at: None,
            ack_by: None,
        };
        let resumed = Resumed {
            granted,
            granted_at: Time(0),
            worker: "w".to_owned(),
            cancel: None,
        };
        let _ = respond.respond(Ok(vec![resumed])).is_err();
    }

    fn read(&self, _: JobId, respond: Box<dyn Respond<Result<Option<StoredJob>, LeaseError>>>) {
        let _ = respond.respond(Ok(None)).is_err();
    }
}

/// A requester that waits for an answer, or has gone.
struct Requester(bool);

impl<T> Respond<T> for Requester {
    fn is_gone(&self) -> bool {
        !self.0
    }

    fn respond(self: Box<Self>, answer: T) -> Result<(), T> {
        if self.0 { Ok(()) } else { Err(answer) }
    }
}

fn ask(audit: &LeaseAudit, waits: bool) {
    let request = LeaseRequest {
        executors: vec!["there".parse().unwrap()],
        worker: "w".to_owned(),
        slots: 1,
        hold: Hold::Connection,
        wait_ms: 0,
        events: None,
    };
    audit.lease(request, Box::new(Requester(waits)));
}

fn send(audit: &LeaseAudit, fence: Fence, message: LeaseMessage) {
    audit.send(JOB, fence, message, Box::new(Requester(true)));
}

const HEARTBEAT: LeaseMessage = LeaseMessage::Heartbeat {
    progress: None,
    wait_ms: 0,
};

fn complete() -> LeaseMessage {
    LeaseMessage::Complete {
        worker: None,
        outcome: Outcome::Completed { result: None },
        meter: Meter::default(),
    }
}

#[test]
fn lease_knows_a_lease_by_each_fence() {
    let audit = LeaseAudit::new(Arc::new(Granting::default()));
    ask(&audit, true);
    send(&audit, Fence::Lease(LEASE), LeaseMessage::Ack);
    send(&audit, Fence::Attempt(1), HEARTBEAT);
    send(&audit, Fence::Worker("w".to_owned()), complete());
    audit.assert_settled();
}

struct Deaf;

impl LeaseEvents for Deaf {
    fn cancelled(&self, _: JobId, _: LeaseId, _: u64) {}

    fn revoked(&self, _: JobId, _: LeaseId, _: Revocation) {}
}

#[test]
fn lease_knows_a_lease_that_was_resumed() {
    let audit = LeaseAudit::new(Arc::new(Granting::default()));
    let resume = || {
        let name = "there".parse().unwrap();
        audit.resume(name, Arc::new(Deaf), Box::new(Requester(true)));
    };
    resume();
    send(&audit, Fence::Lease(LEASE), HEARTBEAT);
    send(&audit, Fence::Worker("w".to_owned()), complete());
    audit.assert_settled();
    resume();
    assert!(audit.violations()[0].contains("is granted twice"));
}

#[test]
fn lease_notes_a_message_that_is_accepted_after_the_end() {
    let audit = LeaseAudit::new(Arc::new(Granting::default()));
    ask(&audit, true);
    send(&audit, Fence::Lease(LEASE), complete());
    send(&audit, Fence::Lease(LEASE), complete());
    assert_eq!(audit.violations(), [""; 0]);
    send(&audit, Fence::Lease(LEASE), HEARTBEAT);
    let found = audit.violations();
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].contains("is accepted after the end"), "{found:?}");
}

#[test]
fn lease_notes_an_end_that_ends_nothing() {
    let audit = LeaseAudit::new(Arc::new(Granting::default()));
    let end = || {
        audit.end(AttemptEnd {
            job: JOB,
            lease: LEASE,
            worker: "w/1".to_owned(),
            end: End::NoRoom,
        });
    };
    end();
    ask(&audit, true);
    end();
    end();
    let found = audit.violations();
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found[0].ends_with("which was never granted"), "{found:?}");
    assert!(found[1].ends_with("after its end"), "{found:?}");
}
