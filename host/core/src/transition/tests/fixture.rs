//! Jobs in each state, made the way real ones get there.

use uuid::Uuid;

use crate::failure::{Failure, FailureKind};
use crate::id::{JobId, LeaseId, NodeId};
use crate::job::{KeyOfJob, Lifecycle, LimitKey, NewJob, Payload, State};
use crate::json::JsonText;
use crate::lease::{Fence, Hold};
use crate::outcome::Outcome;
use crate::policy::Policy;
use crate::prerequisite::{Conditions, When};
use crate::time::Time;
use crate::transition::Input;

pub(super) const NOW: Time = Time(1_000_000);
pub(super) const NODE: NodeId = NodeId(Uuid::from_u128(6));
pub(super) const LEASE: LeaseId = LeaseId(Uuid::from_u128(7));
pub(super) const OTHER_LEASE: LeaseId = LeaseId(Uuid::from_u128(8));
pub(super) const TTL: Hold = Hold::Ttl { ttl_ms: 30_000 };

pub(super) fn job_id(n: u128) -> JobId {
    JobId(Uuid::from_u128(n))
}

pub(crate) fn new_job(policy: Policy) -> NewJob {
    NewJob {
        id: job_id(1),
        handler: "noop".parse().unwrap(),
        executor: None,
        component: None,
        queue: "default".parse().unwrap(),
        priority: 5,
        run_at: None,
        deadline: None,
        policy,
        unique_key: None,
        depends_on: Vec::new(),
        conditions: None,
        batch: None,
        notify: Vec::new(),
        files: Vec::new(),
        payload: Payload {
            params: JsonText::null(),
            wire: "http".to_owned(),
            external_id: None,
            trace_context: Vec::new(),
            attributes: Vec::new(),
            origin: None,
            latest_start: None,
        },
    }
}

pub(super) fn available(policy: Policy) -> Lifecycle {
    Lifecycle::accept(NOW, &new_job(policy), 0)
}

/// A job that waits for job 2 to complete, or for job 3 to fail.
pub(super) fn waiting() -> Lifecycle {
    let mut new = new_job(Policy::default());
    let when = vec![(job_id(3), When::Failed)];
    new.conditions = Conditions {
        when,
        ..Conditions::default()
    }
    .some();
    Lifecycle::accept(NOW, &new, 1)
}

/// An available job that has a limit.
pub(super) fn limited() -> Lifecycle {
    let mut job = available(Policy::default());
    job.limits.keys.push(KeyOfJob {
        key: LimitKey {
            limit: 1,
            key: "a".into(),
        },
        units: 1,
        is_listed: false,
    });
    job
}

/// A job that waits for its only limit.
pub(super) fn held_back() -> Lifecycle {
    let mut job = limited();
    job.wait_for_limit(0);
    job
}

pub(super) fn running(policy: Policy, hold: Hold) -> Lifecycle {
    let mut job = available(policy);
    claim(&mut job, NOW, hold);
    job
}

pub(super) fn claim(job: &mut Lifecycle, now: Time, hold: Hold) {
    let input = Input::Claim {
        node: NODE,
        lease: LEASE,
        worker: "cell-1",
        hold,
    };
    job.apply(now, &input).unwrap();
}

pub(super) fn error(retryable: bool) -> Outcome {
    Outcome::Failed(Failure {
        retryable: Some(retryable),
        ..Failure::new(FailureKind::UserError, "no luck")
    })
}

/// Brings a job to `state`; `hold` is what keeps the lease of a running one.
pub(super) fn in_state(state: State, hold: Hold) -> Lifecycle {
    let fence = Fence::Lease(LEASE);
    let complete = |outcome: &Outcome| {
        let mut job = running(Policy::default(), hold);
        job.apply(NOW, &Input::Complete(&fence, outcome)).unwrap();
        job
    };
    match state {
        State::Pending => waiting(),
        State::Scheduled => {
            let mut new = new_job(Policy::default());
            new.run_at = Some(NOW.plus_ms(1));
            Lifecycle::accept(NOW, &new, 0)
        }
        State::Available => available(Policy::default()),
        State::Running => running(Policy::default(), hold),
        State::Retryable => complete(&error(true)),
        State::Completed => complete(&Outcome::Completed { result: None }),
        State::Cancelled => complete(&Outcome::Cancelled { partial: None }),
        State::Discarded => complete(&error(false)),
    }
}
