//! How jobs differ: limits, backoff, and what a lost lease or an expired grace means. Adapters set
//! this data; the rules never ask which protocol a job came from.

use serde::{Deserialize, Serialize};

use crate::id::JobId;

/// The wait before the next attempt: it doubles up to a maximum, and a hash spreads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    /// The delay after the first attempt, in milliseconds.
    pub base_ms: u64,
    /// The longest delay before it is spread, in milliseconds.
    pub max_ms: u64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            base_ms: 1_000,
            max_ms: 3_600_000,
        }
    }
}

/// How many attempts a job has by default, including the first. With the default backoff, the last one starts about
/// eight hours after the first failed.
pub const MAX_ATTEMPTS: u32 = 20;

/// How far a delay is spread to each side, in permille.
pub(crate) const JITTER_PERMILLE: u64 = 200;

impl Backoff {
    /// Returns the delay after attempt `attempt` (the first is 1), in milliseconds.
    ///
    /// It is `base × 2^(attempt−1)`, at most `max`, changed by up to ±20 % by a hash of the job's
    /// id and the attempt, so that jobs that failed together do not restart together.
    pub fn delay_ms(self, job: JobId, attempt: u32) -> u64 {
        let doubled = 1_u64
            .checked_shl(attempt.saturating_sub(1))
            .map_or(u64::MAX, |factor| self.base_ms.saturating_mul(factor));
        let delay = u128::from(doubled.min(self.max_ms));
        let permille = 1000 - JITTER_PERMILLE + spread(job, attempt) % (2 * JITTER_PERMILLE);
        u64::try_from(delay * u128::from(permille) / 1000).unwrap_or(u64::MAX)
    }
}

/// Mixes a job's id and an attempt into evenly spread bits (`SplitMix64`'s finalizer).
fn spread(job: JobId, attempt: u32) -> u64 {
    let (high, low) = job.0.as_u64_pair();
    let mut bits =
        high ^ low.rotate_left(32) ^ u64::from(attempt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// How long a job is kept after it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    /// A job that completed or was cancelled, in milliseconds.
    pub ms: u64,
    /// A job that was discarded, in milliseconds.
    pub discarded_ms: u64,
}

impl Retention {
    /// Keeps all ended jobs equally long.
    pub const fn equal(ms: u64) -> Self {
        Self {
            ms,
            discarded_ms: ms,
        }
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self::equal(7 * 24 * 3_600_000)
    }
}

/// The shortest retention, in milliseconds: enough for waiting clients to read how a job ended.
pub const RETENTION_MS_MIN: u64 = 1_000;

/// The retention that a job, its queue or its handler chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionChoice {
    pub ms: Option<u64>,
    /// Without it, discarded jobs are kept as long as others.
    pub discarded_ms: Option<u64>,
}

impl RetentionChoice {
    /// Takes from `other` what this choice leaves open.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            ms: self.ms.or(other.ms),
            discarded_ms: self.discarded_ms.or(other.discarded_ms),
        }
    }

    /// Takes from `default` what this choice leaves open.
    pub fn over(self, default: Retention) -> Retention {
        Retention {
            ms: self.ms.unwrap_or(default.ms),
            discarded_ms: self
                .discarded_ms
                .or(self.ms)
                .unwrap_or(default.discarded_ms),
        }
    }
}

/// What happens to a running job if its worker does not stop within the grace of a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnGraceExpired {
    /// It is cancelled: the sandbox has stopped the guest.
    Cancelled,
    /// It is discarded with `cancel_timeout`: a foreign worker may still be executing it.
    Discarded,
}

/// The limits and rules of one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// The most attempts that count, including the first; at least 1.
    pub max_attempts: u32,
    /// The longest time for an attempt, in milliseconds; `None` means the handler's limit.
    pub timeout_ms: Option<u64>,
    /// The time that a cancelled guest has to stop, in milliseconds; `None` means the handler's
    /// grace.
    pub cancel_grace_ms: Option<u64>,
    pub backoff: Backoff,
    pub retention: Retention,
    /// What happens if the worker does not stop after a cancel.
    pub on_grace_expired: OnGraceExpired,
    /// Whether an attempt counts if its lease is lost.
    pub lost_lease_costs_attempt: bool,
    /// The time that a worker has to acknowledge its lease, in milliseconds; `None` if it need not.
    pub ack_window_ms: Option<u64>,
    /// How long after its time limit or the deadline a worker that sends heartbeats may take to report how the
    /// attempt ended, in milliseconds; `None` if its wire ends the attempt.
    pub report_ms: Option<u64>,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_attempts: MAX_ATTEMPTS,
            timeout_ms: None,
            cancel_grace_ms: None,
            backoff: Backoff::default(),
            retention: Retention::default(),
            on_grace_expired: OnGraceExpired::Cancelled,
            lost_lease_costs_attempt: false,
            ack_window_ms: None,
            report_ms: None,
        }
    }
}
