//! What is known in memory of foreign workers: which wait for attempts, and which leases they hold.
//! Knows no store and no wire; the rules decide what a message does.

pub(crate) mod assignment;
pub(crate) mod requests;
pub(crate) mod table;

use host_core::id::{JobId, LeaseId, NodeId};
use host_core::job::{Lifecycle, State};
use host_core::lease::Fence;
use host_core::outcome::{Progress, Report};
use host_core::port::lease::{GrantedLease, LeaseError, LeaseMessage, Respond, Standing};
use host_core::time::Time;
use host_core::transition::Loss;
use host_engine::lease;
use host_engine::lease::{Ack, CancelAck, CancelReceived, Claimed, Complete, Heartbeat, Log, Lose};
use host_runtime::lease_book::WaitingHeartbeat;

use self::requests::{RequestId, Requests};
use self::table::{HeldLease, LeaseTable};

pub(crate) struct Workers {
    pub(crate) requests: Requests,
    pub(crate) table: LeaseTable,
    /// This node, if others share the store.
    node: Option<NodeId>,
}

/// A worker's message about its lease, and where the answer goes.
pub(crate) struct WorkerMessage {
    pub(crate) job: JobId,
    pub(crate) fence: Fence,
    pub(crate) body: LeaseMessage,
    pub(crate) respond: Box<dyn Respond<Result<Standing, LeaseError>>>,
    /// The job's attempt when the message came: its number, and when it was granted.
    pub(crate) attempt: Option<(u32, Time)>,
}

impl WorkerMessage {
    /// Makes the message of a heartbeat that has waited.
    pub(crate) fn heartbeat(beat: WaitingHeartbeat) -> Self {
        Self {
            job: beat.job,
            fence: beat.fence,
            body: LeaseMessage::Heartbeat {
                progress: None,
                wait_ms: 0,
            },
            respond: beat.respond,
            attempt: None,
        }
    }
}

/// An attempt that was claimed for a request whose requester has gone.
pub(crate) struct UnclaimedAttempt {
    pub(crate) job: JobId,
    pub(crate) lease: LeaseId,
    pub(crate) worker: String,
}

impl Workers {
    /// Makes one without workers. If other nodes share the store, heartbeats are answered from
    /// `table` for leases that `node` has granted.
    pub(crate) fn new(table: LeaseTable, node: Option<NodeId>) -> Self {
        Self {
            requests: Requests::default(),
            table,
            node,
        }
    }

    /// Answers a request with the attempts that were claimed for it, and returns those that the
    /// requester does not take: the caller must give them back.
    pub(crate) fn grant(
        &mut self,
        now: Time,
        id: RequestId,
        claimed: Vec<(LeaseId, Claimed)>,
    ) -> Vec<UnclaimedAttempt> {
        let Some((request, respond)) = self.requests.remove(id) else {
            return Vec::new();
        };
        let grant = |(lease, claimed): (LeaseId, Claimed)| {
            let lifecycle = &claimed.lifecycle;
            let held = HeldLease {
                lease,
                attempt: lifecycle.attempt,
                worker: request.worker.clone(),
                executor: lifecycle.executor.clone(),
                handler: lifecycle.handler.clone(),
                hold: request.hold,
                granted_at: now,
                is_restored: false,
                events: request.events.clone(),
            };
            // Record the lease before the answer: the worker's next message may arrive before this
            // call returns.
            self.table.hold(lifecycle.id, held);
            let stored = lifecycle.lease.as_ref();
            GrantedLease {
                job: lifecycle.id,
                lease,
                expires_at: stored.and_then(|lease| lease.expires_at),
                ack_by: stored.and_then(|lease| lease.ack_by),
                assignment: assignment::make(now, lease, claimed),
            }
        };
        let granted = claimed.into_iter().map(grant).collect();
        let untaken = respond.respond(granted).err().unwrap_or_default();
        let forget = |granted: GrantedLease| {
            self.table.forget(granted.job);
            UnclaimedAttempt {
                job: granted.job,
                lease: granted.lease,
                worker: request.worker.clone(),
            }
        };
        untaken.into_iter().map(forget).collect()
    }

    /// Records a job as it is stored now, if a worker holds it. From then on its heartbeats are
    /// answered from memory.
    pub(crate) fn record_stored(&self, now: Time, job: &Lifecycle) {
        let granted_by = job.lease.as_ref().map(|lease| lease.node);
        let is_ours = self.node.is_none() || self.node == granted_by;
        if is_ours && job.state == State::Running {
            self.table.record_stored(now, job);
        }
    }

    /// Makes the command for a worker's message. If no worker holds the job, it may be running in a
    /// cell. The command then gets a fence that matches no attempt, so that the rules refuse it; if
    /// other nodes share the store, one that matches no lease of a cell.
    pub(crate) fn command(
        &self,
        message: &WorkerMessage,
        progress: Option<Progress>,
    ) -> lease::Command {
        let job = message.job;
        let (fence, worker) = match self.table.worker(job) {
            Some(worker) => (message.fence.clone(), worker),
            None if self.node.is_some() => {
                let fence = Fence::Remote(Box::new(message.fence.clone()));
                (fence, String::new())
            }
            None => (Fence::Attempt(0), String::new()),
        };
        let lose = |fence, loss, executor| {
            lease::Command::Lose(Lose {
                job,
                fence,
                loss,
                executor,
                requests: None,
            })
        };
        match &message.body {
            LeaseMessage::Ack => lease::Command::Ack(Ack { job, fence }),
            LeaseMessage::Heartbeat { .. } => lease::Command::Heartbeat(Heartbeat { job, fence }),
            LeaseMessage::Log { offset, bytes } => lease::Command::Log(Log {
                job,
                fence,
                offset: *offset,
                bytes: *bytes,
            }),
            LeaseMessage::Complete {
                outcome,
                meter,
                worker: reported,
            } => lease::Command::Complete(Complete {
                job,
                fence,
                report: Box::new(Report {
                    outcome: outcome.clone(),
                    meter: *meter,
                    progress,
                    executor: worker,
                    revision: None,
                    worker: reported.clone(),
                    requests: None,
                }),
                writes: None,
            }),
            LeaseMessage::CancelAck { partial, message } => lease::Command::CancelAck(CancelAck {
                job,
                fence,
                partial: partial.clone(),
                message: message.clone(),
            }),
            LeaseMessage::CancelReceived { grace_ms } => {
                lease::Command::CancelReceived(CancelReceived {
                    job,
                    fence,
                    grace_ms: *grace_ms,
                })
            }
            LeaseMessage::GiveBack { begun: true } => lose(fence, Loss::WorkerGone, worker),
            LeaseMessage::GiveBack { begun: false } => lose(fence, Loss::NotBegun, worker),
            LeaseMessage::Exited(exit) => lose(fence, Loss::Exited(*exit), worker),
        }
    }
}
