//! A running job loses its lease without a report about the attempt.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{Effect, Refusal};
use crate::failure::{Failure, FailureKind};
use crate::job::{Lifecycle, State};
use crate::lease::Fence;
use crate::suspicion::LONE_DEATHS_MAX;
use crate::time::Time;

/// How many losses do not count as attempts. Every later loss counts.
pub const FREE_LOSSES_MAX: u32 = 5;

/// The code of a loss because no heartbeat came in time.
pub const HEARTBEAT_TIMEOUT: &str = "HEARTBEAT_TIMEOUT";

/// The code of a loss because the lease was not acknowledged in time.
pub const ACK_TIMEOUT: &str = "ACK_TIMEOUT";

/// How long a job waits for its component, in milliseconds.
const UNLOADED_PAUSE_MS: u64 = 1_000;

/// How a lease was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Loss {
    /// The lease ran out, or was not acknowledged in time.
    Expired,
    /// The worker's connection ended.
    WorkerGone,
    /// The worker's process ended without a report about the attempt. If it had not even acknowledged its
    /// lease, the attempt counts, and the next one waits.
    Exited(Exit),
    /// The connection of a foreign worker with several jobs ended, and any of them may be the cause. No attempt
    /// counts.
    SharedWorkerGone {
        /// How many jobs the worker had.
        jobs: usize,
    },
    /// The cell was stopped because of another job, so this one is not a suspect.
    Innocent,
    /// The worker gave the lease back before it began. No attempt counts and none is recorded.
    /// Refused once the lease has expired, which is an ordinary loss, or was acknowledged.
    NotBegun,
    /// The handler's component is not ready where the job was to run: the cell could not load it, and it is
    /// compiled again in the meantime, or another node has just deployed it. No attempt counts and none is
    /// recorded, and the job waits a moment.
    Unloaded,
    /// The cell that ran this job died. No attempt counts unless the job was alone in it.
    CellDied {
        /// How many jobs were in the cell.
        jobs: usize,
    },
    /// The host stopped.
    HostRestarted,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    /// By itself, with this status.
    Status(i32),
    /// By this signal.
    Signal(i32),
}

impl Loss {
    /// Returns the failure of an attempt that was lost this way.
    pub fn failure(self) -> Failure {
        Failure::new(self.failure_kind(), self.message())
    }

    const fn failure_kind(self) -> FailureKind {
        match self {
            Self::Expired
            | Self::WorkerGone
            | Self::Exited(_)
            | Self::SharedWorkerGone { .. }
            | Self::NotBegun => FailureKind::LeaseLost,
            Self::Innocent | Self::Unloaded | Self::CellDied { .. } | Self::HostRestarted => {
                FailureKind::CellLost
            }
        }
    }

    fn message(self) -> Cow<'static, str> {
        let words = match self {
            Self::Exited(Exit::Status(status)) => {
                return format!(
                    "the worker's process ended with status {status} without reporting an outcome"
                )
                .into();
            }
            Self::Exited(Exit::Signal(signal)) => {
                return format!(
                    "the worker's process was ended by signal {signal} without reporting an outcome"
                )
                .into();
            }
            Self::Expired => "the lease expired without a heartbeat from its worker",
            Self::WorkerGone => "the worker's connection ended",
            Self::SharedWorkerGone { .. } => {
                "the worker's connection ended; the worker had other jobs too"
            }
            Self::Innocent => "the cell was ended because of another job",
            Self::NotBegun => "it did not start, because no worker had a free slot",
            Self::Unloaded => "its component was not ready on the node that claimed it",
            Self::CellDied { jobs: 0 | 1 } => "the cell died while this job was alone in it",
            Self::CellDied { .. } => "the cell died with this job and others in it",
            Self::HostRestarted => "the host stopped while the job was running",
        };
        words.into()
    }
}

/// Gives up the lease on behalf of its holder. A loss may be reported after the lease has expired,
/// a give-back may not. Nor may what a worker has acknowledged, perhaps to another node, be given back as not begun.
pub(super) fn apply(
    job: &mut Lifecycle,
    now: Time,
    fence: &Fence,
    loss: Loss,
) -> Result<Vec<Effect>, Refusal> {
    match job.check_fence(now, fence) {
        Err(Refusal::Expired) if loss != Loss::NotBegun => {}
        checked => checked?,
    }
    let is_acknowledged = job.policy.ack_window_ms.is_some() && !job.awaits_ack();
    if loss == Loss::NotBegun && is_acknowledged {
        return Err(Refusal::WrongState(job.state));
    }
    Ok(lose(job, now, loss))
}

/// Takes the lease away. The job becomes available again, immediately or after a moment. It ends instead
/// if a cancel is pending, if too many cells died with it, or if the loss counts and this was the
/// last attempt.
pub(super) fn lose(job: &mut Lifecycle, now: Time, loss: Loss) -> Vec<Effect> {
    let mut effects = Vec::new();
    // Its process did nothing: it would do the same again.
    let did_nothing = job.awaits_ack() && matches!(loss, Loss::Exited(_));
    let begun = !matches!(loss, Loss::NotBegun | Loss::Unloaded);
    if begun {
        let mut failure = loss.failure();
        if loss == Loss::Expired {
            let (code, words) = if job.awaits_ack() {
                (ACK_TIMEOUT, "the lease was not acknowledged in time".into())
            } else {
                (HEARTBEAT_TIMEOUT, loss.message())
            };
            failure.message = format!("{code}: {words}");
            failure.code = Some(code.to_owned());
        }
        job.failure = Some(failure.kind);
        effects.push(Effect::AttemptLost { failure });
    }
    let together = match loss {
        Loss::CellDied { jobs } => jobs.max(1),
        Loss::SharedWorkerGone { jobs } => jobs.max(2),
        _ => 0,
    };
    if together > 0 {
        job.suspicion = job.suspicion.after_loss(together);
    }
    if !begun || together > 1 {
        job.attempts_forgiven += 1;
    } else if !did_nothing
        && !job.policy.lost_lease_costs_attempt
        && job.attempts_uncharged < FREE_LOSSES_MAX
    {
        job.attempts_uncharged += 1;
    }
    if job.cancel.is_some() {
        job.failure = Some(FailureKind::Cancelled);
        job.finish(now, State::Cancelled);
    } else if job.suspicion.is_poison() {
        job.failure = Some(FailureKind::Poison);
        job.finish(now, State::Discarded);
        effects.push(Effect::Failed {
            failure: Failure::new(
                FailureKind::Poison,
                format!("{LONE_DEATHS_MAX} cells died while this job was alone in them"),
            ),
        });
    } else if job.is_overdue(now) {
        effects.extend(job.discard_overdue(now));
    } else if job.attempts_charged() >= job.policy.max_attempts {
        job.finish(now, State::Discarded);
    } else {
        let delay_ms = match loss {
            Loss::Unloaded => UNLOADED_PAUSE_MS,
            _ if did_nothing => job.policy.backoff.delay_ms(job.id, job.attempts_charged()),
            _ => 0,
        };
        job.requeue(now, delay_ms);
    }
    effects
}
