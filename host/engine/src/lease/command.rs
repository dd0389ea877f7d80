//! The commands about leases: what grants them, and what workers say.

use std::collections::BTreeSet;

use host_core::id::{JobId, LeaseId, NodeId};
use host_core::job::{Lane, Lifecycle, Payload};
use host_core::json::JsonText;
use host_core::lease::{Fence, Hold, Renewal};
use host_core::name::Name;
use host_core::outcome::Report;
use host_core::requests::Requests;
use host_core::transition::Loss;
use host_core::writes::Writes;

use crate::commands;

/// Lease available jobs of queues that are not paused into these slots, the most urgent and then the oldest first. The
/// reply is shorter than `slots` if too few jobs are available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The host that grants the leases.
    pub node: NodeId,
    pub slots: Vec<Slot>,
    /// Handlers whose jobs stay where they are: the cells of this host cannot run them.
    pub except: BTreeSet<Name>,
    /// The claim ends with the job whose params bring the total to this many bytes.
    pub params_bytes_max: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The id of the lease to grant.
    pub lease: LeaseId,
    /// The worker that will execute.
    pub worker: String,
    /// The jobs that may take this slot.
    pub lane: Lane,
    /// What keeps the lease alive.
    pub hold: Hold,
}

/// A job that a claim has leased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The job, now running.
    pub lifecycle: Lifecycle,
    /// The params of the handler.
    pub payload: Payload,
}

/// A worker acknowledges its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    pub job: JobId,
    pub fence: Fence,
}

/// A worker is alive. If its lease is by TTL, it is extended. The reply shows the new end of the lease and, if a cancel
/// is requested, its reason and the end of its grace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    pub job: JobId,
    pub fence: Fence,
}

/// A worker has uploaded a part of its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    pub job: JobId,
    pub fence: Fence,
    /// Where the part begins in the log, in bytes.
    pub offset: u64,
    pub bytes: u64,
}

/// Store that a lease was renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renew(pub Renewal);

/// An attempt has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Complete {
    pub job: JobId,
    pub fence: Fence,
    /// The outcome and what the attempt used.
    pub report: Box<Report>,
    /// What it writes, exactly if it completes. If that is refused, the attempt fails instead.
    pub writes: Option<Box<Writes>>,
}

/// A lease was lost without a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lose {
    pub job: JobId,
    pub fence: Fence,
    /// How the lease was lost.
    pub loss: Loss,
    /// The display name of the executor.
    pub executor: String,
    /// The requests that it made to HTTP servers until then; `None` if it made none.
    pub requests: Option<Box<Requests>>,
}

/// A worker has received the cancel: its grace ends after this time at the latest, in milliseconds. Refused if no cancel
/// is requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelReceived {
    pub job: JobId,
    pub fence: Fence,
    pub grace_ms: u64,
}

/// A worker has stopped because of the cancel: the attempt and the job end as cancelled. Refused if no cancel is
/// requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CancelAck {
    pub job: JobId,
    pub fence: Fence,
    /// The partial result.
    pub partial: Option<JsonText>,
    /// The worker's message about the stop.
    pub message: Option<String>,
}

commands! {
    Lease {
        Claim(Claim) "claim" -> Vec<Claimed>, claim, |claim| claim.slots.len(), "one job for each slot, and a number of jobs that it passes";
        Ack(Ack) "ack" -> Box<Lifecycle>, ack, |_| 1, "one job";
        Heartbeat(Heartbeat) "heartbeat" -> Box<Lifecycle>, heartbeat, |_| 1, "one job";
        Log(Log) "log" -> Box<Lifecycle>, log, |_| 1, "one job";
        Renew(Renew) "renew" -> Box<Lifecycle>, renew, |_| 1, "one job";
        Complete(Complete) "complete" -> Box<Lifecycle>, complete_attempt, |complete| 1 + complete.writes.as_ref().map_or(0, |writes| writes.jobs.len()), "one job, a slice of its dependents, and what its attempt wrote, which is limited";
        Lose(Lose) "lose" -> Box<Lifecycle>, lose, |_| 1, "one job and a slice of its dependents";
        CancelReceived(CancelReceived) "cancel_received" -> Box<Lifecycle>, cancel_received, |_| 1, "one job";
        CancelAck(CancelAck) "cancel_ack" -> Box<Lifecycle>, cancel_ack, |_| 1, "one job and a slice of its dependents";
    }
}

impl Command {
    /// Returns the job that it names; a claim names none.
    pub const fn job(&self) -> Option<JobId> {
        match self {
            Self::Claim(_) => None,
            Self::Ack(Ack { job, .. })
            | Self::Heartbeat(Heartbeat { job, .. })
            | Self::Log(Log { job, .. })
            | Self::Renew(Renew(Renewal { job, .. }))
            | Self::Complete(Complete { job, .. })
            | Self::Lose(Lose { job, .. })
            | Self::CancelReceived(CancelReceived { job, .. })
            | Self::CancelAck(CancelAck { job, .. }) => Some(*job),
        }
    }
}
