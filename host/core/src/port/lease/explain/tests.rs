//! The answers to messages about leases that are not current.

use uuid::Uuid;

use super::*;
use crate::failure::{Failure, FailureKind};
use crate::id::{JobId, LeaseId, NodeId};
use crate::job::{Lifecycle, NewJob};
use crate::json::JsonText;
use crate::lease::{Hold, Lease};
use crate::outcome::{LOST, Meter};
use crate::policy::Policy;
use crate::query::JobDetail;
use crate::time::Time;
use crate::transition::tests::fixture::new_job;

const LEASE: LeaseId = LeaseId(Uuid::from_u128(8));

fn holder(worker: &str) -> Fence {
    Fence::Holder(LEASE, worker.to_owned())
}

fn record(worker: &str, end: Option<EndCause>) -> LeaseRecord {
    LeaseRecord {
        worker: worker.to_owned(),
        attempt: 1,
        end,
    }
}

fn completed(text: &str) -> LeaseMessage {
    LeaseMessage::Complete {
        outcome: Outcome::Completed {
            result: Some(JsonText(text.to_owned())),
        },
        meter: Meter::default(),
        worker: None,
    }
}

fn failed(message: &str) -> LeaseMessage {
    LeaseMessage::Complete {
        outcome: Outcome::Failed(Failure::new(FailureKind::UserError, message)),
        meter: Meter::default(),
        worker: None,
    }
}

fn cancelled(partial: &str) -> LeaseMessage {
    LeaseMessage::CancelAck {
        partial: Some(JsonText(partial.to_owned())),
        message: Some("stopped".to_owned()),
    }
}

const HEARTBEAT: LeaseMessage = LeaseMessage::Heartbeat {
    progress: None,
    wait_ms: 0,
};

fn attempt(number: u32, outcome: &str, failure: Option<Failure>) -> Attempt {
    Attempt {
        number,
        executor: "w".to_owned(),
        revision: None,
        started_at: Time(1),
        finished_at: Time(2),
        outcome: outcome.to_owned(),
        failure,
        meter: Meter::default(),
        requests: None,
        worker: None,
    }
}

/// A job whose latest attempt has this number.
fn kept(state: State, number: u32, left: Option<JsonText>, attempts: Vec<Attempt>) -> StoredJob {
    let new = NewJob {
        id: JobId(Uuid::from_u128(7)),
        ..new_job(Policy::default())
    };
    let mut lifecycle = Lifecycle::accept(Time(0), &new, 0);
    lifecycle.state = state;
    lifecycle.attempt = number;
    StoredJob {
        job: JobDetail {
            lifecycle,
            payload: new.payload,
            unique_key: None,
            depends_on: Vec::new(),
            result: left,
            failure: None,
            progress: None,
        },
        attempts,
    }
}

/// A running job whose lease `w` holds.
fn running() -> StoredJob {
    let mut kept = kept(State::Running, 1, None, Vec::new());
    kept.job.lifecycle.lease = Some(Lease {
        id: LEASE,
        node: NodeId(Uuid::nil()),
        worker: "w".to_owned(),
        hold: Hold::Ttl { ttl_ms: 10 },
        granted_at: Time(0),
        expires_at: Some(Time(10)),
        ack_by: None,
        ends_by: None,
        logged: 0,
    });
    kept
}

fn is_repeated(answer: &Result<Standing, LeaseError>, expected: State) -> bool {
    matches!(answer, Ok(standing) if standing.is_repeated && standing.state == expected)
}

fn cause(answer: Result<Standing, LeaseError>) -> EndCause {
    match answer {
        Err(LeaseError::Over(end)) => end.cause,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_same_end_again_is_repeated_and_another_is_over() {
    let failure = |message| Failure::new(FailureKind::UserError, message);
    let stopped = Failure::new(FailureKind::Cancelled, "stopped");
    let table = [
        (
            completed("1"),
            completed("2"),
            State::Completed,
            attempt(1, "completed", None),
        ),
        (
            failed("a"),
            failed("b"),
            State::Discarded,
            attempt(1, "failed", Some(failure("a"))),
        ),
        (
            cancelled("1"),
            cancelled("2"),
            State::Cancelled,
            attempt(1, "cancelled", Some(stopped)),
        ),
    ];
    for (same, other, state, ended) in table {
        let kept = kept(state, 1, Some(JsonText("1".to_owned())), vec![ended]);
        let reported = record("w", Some(EndCause::Reported));
        // As it is remembered, after a restart, and by the number of the attempt.
        for (record, fence) in [
            (Some(&reported), holder("w")),
            (None, holder("w")),
            (None, Fence::Attempt(1)),
        ] {
            let again = explain(record, Some(&kept), &fence, &same);
            assert!(is_repeated(&again, state), "{again:?}");
            let answer = explain(record, Some(&kept), &fence, &other);
            if record.is_some() || fence.attempt().is_some() {
                assert_eq!(cause(answer), EndCause::Reported);
            } else {
                assert_eq!(answer, Err(LeaseError::Unknown));
            }
        }
        let late = explain(Some(&reported), Some(&kept), &holder("w"), &HEARTBEAT);
        assert_eq!(cause(late), EndCause::Reported);
    }
}

#[test]
fn a_failure_of_an_earlier_attempt_is_repeated_and_its_job_is_tried_again() {
    let failure = Failure::new(FailureKind::UserError, "a");
    let kept = kept(
        State::Running,
        2,
        None,
        vec![attempt(1, "failed", Some(failure))],
    );
    let again = explain(None, Some(&kept), &Fence::Attempt(1), &failed("a"));
    assert!(is_repeated(&again, State::Retryable), "{again:?}");
    let Err(LeaseError::Over(end)) = explain(None, Some(&kept), &Fence::Attempt(1), &HEARTBEAT)
    else {
        panic!("it is over");
    };
    assert_eq!(
        end.job.map(|job| (job.state, job.attempt)),
        Some((State::Running, 2))
    );
    assert_eq!(end.attempt.map(|attempt| attempt.number), Some(1));
}

#[test]
fn a_lease_that_ended_without_a_report_says_why() {
    let lost = vec![attempt(
        1,
        LOST,
        Some(Failure::new(FailureKind::LeaseLost, "gone")),
    )];
    let kept = kept(State::Available, 1, None, lost);
    for (end, expected) in [
        (Some(EndCause::Expired), EndCause::Expired),
        (Some(EndCause::Revoked), EndCause::Revoked),
        // Another node has granted it, and it was silent.
        (None, EndCause::Expired),
    ] {
        let record = record("w", end);
        for message in [HEARTBEAT, completed("1")] {
            let answer = explain(Some(&record), Some(&kept), &holder("w"), &message);
            assert_eq!(cause(answer), expected);
            let purged = explain(Some(&record), None, &holder("w"), &message);
            assert_eq!(cause(purged), expected);
        }
    }
    let answer = explain(None, Some(&kept), &Fence::Attempt(1), &HEARTBEAT);
    assert_eq!(cause(answer), EndCause::Revoked);
}

#[test]
fn the_lease_of_another_worker_is_named_while_it_is_held() {
    let theirs = Err(LeaseError::NotYours {
        holder: "w".to_owned(),
    });
    let running = running();
    let live = record("w", None);
    for record in [None, Some(&live)] {
        let answer = explain(record, Some(&running), &holder("thief"), &completed("1"));
        assert_eq!(answer, theirs);
    }
    let over = record("w", Some(EndCause::Reported));
    let ended = kept(
        State::Completed,
        1,
        Some(JsonText("1".to_owned())),
        vec![attempt(1, "completed", None)],
    );
    let answer = explain(Some(&over), Some(&ended), &holder("thief"), &completed("1"));
    assert_eq!(answer, Err(LeaseError::Unknown));
    assert_eq!(
        explain(None, None, &holder("w"), &HEARTBEAT),
        Err(LeaseError::Unknown)
    );
    // The store has not ended it yet.
    let late = explain(None, Some(&running), &holder("w"), &HEARTBEAT);
    assert_eq!(cause(late), EndCause::Expired);
}
