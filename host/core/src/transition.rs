//! The state machine: what each input does to a job in each state. This file has one line for each
//! input; `transition/` has one file for each. `docs/states.md` is generated from this table.

mod accept;
mod cancel;
mod claim;
mod complete;
mod heartbeat;
mod limit;
mod lose;
mod operator;
mod prerequisite;
mod refusal;
mod tick;

#[cfg(test)]
pub(crate) mod tests;

use serde::{Deserialize, Serialize};

use crate::failure::{Failure, FailureKind};
use crate::id::{JobId, LeaseId, NodeId};
use crate::job::{Lifecycle, State};
use crate::lease::{Fence, Hold, Lease, Revocation};
use crate::outcome::Outcome;
use crate::time::Time;

pub use lose::{ACK_TIMEOUT, Exit, FREE_LOSSES_MAX, HEARTBEAT_TIMEOUT, Loss};
pub use refusal::Refusal;

/// An input to a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input<'a> {
    /// A worker takes the job.
    Claim {
        /// The host that grants the lease.
        node: NodeId,
        /// The id of the lease to grant.
        lease: LeaseId,
        worker: &'a str,
        /// What keeps the lease alive.
        hold: Hold,
    },
    /// The worker acknowledges its lease.
    Ack(&'a Fence),
    /// The holder uploads a part of its log.
    Log {
        fence: &'a Fence,
        /// Where the part begins in the log, in bytes.
        offset: u64,
        /// How long it is.
        bytes: u64,
    },
    /// The worker is alive.
    Heartbeat(&'a Fence),
    /// The host has promised the worker its lease until this instant, whatever the stored end.
    Renew {
        fence: &'a Fence,
        until: Time,
        /// Whether the worker may also report the end of the attempt until then, because the host could not hear it.
        host_was_away: bool,
    },
    /// The attempt ended.
    Complete(&'a Fence, &'a Outcome),
    /// The lease was lost or given back, and no outcome is known.
    Lose(&'a Fence, Loss),
    /// A user wants the job stopped.
    Cancel {
        reason: Option<&'a str>,
        /// Overrides the policy's grace, in milliseconds.
        grace_ms: Option<u64>,
    },
    /// The worker has received the cancel and must stop within this time, in milliseconds.
    CancelReceived(&'a Fence, u64),
    /// The worker has stopped because of the cancel.
    CancelAck(&'a Fence),
    /// Time has passed.
    Tick,
    /// An operator wants the job to run again.
    Retry {
        /// How many prerequisites it must still wait for.
        prerequisites_open: u32,
    },
    /// An operator wants another priority.
    SetPriority(u8),
    /// An operator wants the job to start at this instant, or immediately if it has passed.
    Reschedule(Time),
    /// An operator wants the job to be forgotten now.
    Purge,
    /// A job that this one depends on has ended in this state.
    PrerequisiteEnded(JobId, State),
    /// The result of one that has ended cannot become an input of this one.
    InputFailed(&'a Failure),
    /// The limit that the job waits for has room.
    Admit,
    /// The key of one of its limits, by its index, is held: it waits for that.
    Withhold(u8),
    /// The handler holds a key of a limit of the job.
    Hold(&'a Fence),
}

/// What must be done after a transition is committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// Tell the worker to stop, and stop the guest by force after the grace.
    Stop {
        lease: LeaseId,
        /// The grace from now, in milliseconds; `None` means the handler's grace.
        grace_ms: Option<u64>,
        /// The reason that the guest sees.
        reason: String,
    },
    /// The lease was revoked: its run must end immediately, and its outcome will be refused.
    Revoke { lease: LeaseId, why: Revocation },
    /// An attempt ended without a report from its worker: record this failure for it.
    AttemptLost { failure: Failure },
    /// The job ended for a reason that no attempt reported: record this failure for the job.
    Failed { failure: Failure },
    /// The retention is over, or an operator wants it: delete the job.
    Purge,
}

impl Lifecycle {
    /// Applies `input` at `now`. Changes the job and returns what must be done, or refuses the
    /// input and leaves the job unchanged.
    pub fn apply(&mut self, now: Time, input: &Input<'_>) -> Result<Vec<Effect>, Refusal> {
        let granted_at = self.lease.as_ref().map(|lease| lease.granted_at);
        let effects = self.apply_input(now, input)?;
        if let Some(granted_at) = granted_at.filter(|_| self.lease.is_none()) {
            self.ran_ms = self.ran_ms.saturating_add(now.since_ms(granted_at));
        }
        if self.state != State::Pending {
            self.limits.waits_for = None;
        }
        Ok(effects)
    }

    fn apply_input(&mut self, now: Time, input: &Input<'_>) -> Result<Vec<Effect>, Refusal> {
        match input {
            Input::Claim {
                node,
                lease,
                worker,
                hold,
            } => claim::apply(self, now, *node, *lease, worker, *hold),
            Input::Ack(fence) => heartbeat::ack(self, now, fence),
            Input::Heartbeat(fence) => heartbeat::apply(self, now, fence),
            Input::Log {
                fence,
                offset,
                bytes,
            } => heartbeat::log(self, now, fence, *offset, *bytes),
            Input::Renew {
                fence,
                until,
                host_was_away,
            } => heartbeat::renew(self, fence, *until, *host_was_away),
            Input::Complete(fence, outcome) => complete::apply(self, now, fence, outcome),
            Input::Lose(fence, loss) => lose::apply(self, now, fence, *loss),
            Input::Cancel { reason, grace_ms } => cancel::apply(self, now, *reason, *grace_ms),
            Input::CancelReceived(fence, grace_ms) => cancel::received(self, now, fence, *grace_ms),
            Input::CancelAck(fence) => cancel::acknowledge(self, now, fence),
            Input::Tick => Ok(tick::apply(self, now)),
            Input::Retry { prerequisites_open } => operator::retry(self, now, *prerequisites_open),
            Input::SetPriority(priority) => operator::set_priority(self, *priority),
            Input::Reschedule(run_at) => operator::reschedule(self, now, *run_at),
            Input::Purge => operator::purge(self),
            Input::PrerequisiteEnded(prerequisite, state) => {
                prerequisite::ended(self, now, *prerequisite, *state)
            }
            Input::InputFailed(failure) => prerequisite::input_failed(self, now, failure),
            Input::Admit => limit::admit(self, now),
            Input::Withhold(place) => limit::withhold(self, *place),
            Input::Hold(fence) => limit::hold(self, now, fence),
        }
    }

    /// Returns whether its worker has still to acknowledge its lease.
    fn awaits_ack(&self) -> bool {
        let lease = self.lease.as_ref();
        lease.is_some_and(|lease| lease.ack_by.is_some())
    }

    /// Checks that `fence` names the current lease, which has not run out and is acknowledged.
    pub fn check_holder(&self, now: Time, fence: &Fence) -> Result<(), Refusal> {
        self.check_fence(now, fence)?;
        if self.awaits_ack() {
            return Err(Refusal::NotAcknowledged);
        }
        Ok(())
    }

    /// Checks that the job is running, that `fence` names its current lease or attempt, and that
    /// the lease has not run out.
    fn check_fence(&self, now: Time, fence: &Fence) -> Result<(), Refusal> {
        if self.check_current(fence)?.is_expired(now) {
            return Err(Refusal::Expired);
        }
        Ok(())
    }

    /// Returns the lease of the running job if `fence` names it or its attempt.
    fn check_current(&self, fence: &Fence) -> Result<&Lease, Refusal> {
        let Some(lease) = &self.lease else {
            return Err(Refusal::Stale);
        };
        let is_current = |fence: &Fence| match fence {
            Fence::Lease(id) => *id == lease.id,
            Fence::Attempt(number) => *number == self.attempt,
            Fence::Worker(worker) => *worker == lease.worker,
            Fence::Holder(id, worker) => *id == lease.id && *worker == lease.worker,
            Fence::Remote(_) => false,
        };
        let current = match fence {
            Fence::Remote(inner) => lease.hold != Hold::Connection && is_current(inner),
            other => is_current(other),
        };
        current.then_some(lease).ok_or(Refusal::Stale)
    }

    /// Ends the job.
    fn finish(&mut self, now: Time, state: State) {
        self.state = state;
        self.lease = None;
        self.run_at = None;
        self.finished_at = Some(now);
    }

    /// Makes the job available, immediately or after `delay_ms`.
    fn requeue(&mut self, now: Time, delay_ms: u64) {
        self.lease = None;
        if delay_ms == 0 {
            self.state = State::Available;
            self.run_at = None;
        } else {
            self.state = State::Retryable;
            self.run_at = Some(now.plus_ms(delay_ms));
        }
    }

    /// Discards the job because its deadline passed while it waited.
    fn discard_overdue(&mut self, now: Time) -> Vec<Effect> {
        self.failure = Some(FailureKind::TimedOut);
        self.finish(now, State::Discarded);
        vec![Effect::Failed {
            failure: Failure::new(
                FailureKind::TimedOut,
                "the deadline passed before an attempt could start",
            ),
        }]
    }
}

impl Lifecycle {
    /// Returns whether the deadline has been reached at `now`.
    pub fn is_overdue(&self, now: Time) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline)
    }
}
