//! After a commit: sends replies, publishes changes, starts claimed jobs, and stops what must stop.

use std::collections::BTreeMap;

use host_cells::pool::executor::NotStarted;
use host_cells::port::CellPort;
use host_core::failure::{Failure, FailureKind};
use host_core::id::{JobId, LeaseId};
use host_core::job::{Lane, Lifecycle, State};
use host_core::lease::Revocation;
use host_core::name::Name;
use host_core::outcome::{Meter, Outcome, Report};
use host_core::query::Change;
use host_core::suspicion::Groups;
use host_core::time::Time;
use host_core::transition::{Effect, Loss};
use host_engine::lease::Claimed;
use host_engine::{Committed, Rejection, Reply};

use super::batch::{End, Finished, Offer, Origin, Target};
use super::unconfigured::Unconfigured;
use super::{DispatchLoop, start};
use crate::SubmitError;
use crate::workers::requests::RequestId;

/// Returns how an attempt ended that had completed, if the store refused what it wrote. `job` is as it is then.
pub(super) fn refused_writes(job: &Lifecycle) -> Option<Outcome> {
    let is_refused = job.failure == Some(FailureKind::WritesRefused);
    let message = "what the handler wrote was refused";
    is_refused.then(|| Outcome::Failed(Failure::new(FailureKind::WritesRefused, message)))
}

impl<P: CellPort> DispatchLoop<P> {
    /// Carries out what a committed batch requires.
    pub(super) fn settle(
        &mut self,
        now: Time,
        origins: Vec<Origin>,
        finished: &[Finished],
        newly_available_max: u64,
        committed: Committed,
    ) {
        let mut finished = finished.iter();
        self.attempts.committed(now, &origins, &committed);
        self.next_wakeup = committed.next_wakeup;
        self.demand
            .record_commit(committed.available, newly_available_max);
        for (job, effect) in committed.effects {
            self.carry_out(now, job, effect);
        }
        for flaw in &committed.unreadable {
            self.signals.shared.flaws.report(flaw);
        }
        for discard in &committed.discards {
            self.discards.report(now, discard);
        }
        for change in &committed.changes {
            self.record_demand(change);
            if let Some(lease) = self.workers.table.record_change(change) {
                self.attempts.forget_params(lease);
                self.signals.shared.live.forget(change.job);
            } else if self.signals.is_shared() && change.from == Some(State::Running) {
                // Another node may have granted its lease.
                self.signals.shared.live.forget(change.job);
            }
        }
        for (origin, reply) in origins.into_iter().zip(committed.replies) {
            // Before the answer: the next heartbeat may arrive before this call returns.
            if let Ok(Reply::Moved(job)) = &reply {
                self.workers.record_stored(now, job);
            }
            match origin {
                Origin::Request(asked, enqueues) => {
                    self.attempts.accepted(self.clock.now(), enqueues, &reply);
                    // The requester may have gone.
                    let _ = asked.send(reply.map_err(SubmitError::Rejected));
                }
                Origin::Lease(message) => self.answer(now, message, reply.map(Reply::unpack)),
                Origin::Renewal(job) => {
                    if let Err(rejection) = reply {
                        tracing::warn!(%job, %rejection, "a lease renewed in memory is no longer current");
                        self.workers.table.forget_stored(job);
                    }
                }
                Origin::Finished => self.finished(finished.next(), reply.map(Reply::unpack)),
                Origin::Tick => {}
                Origin::Claim(offer) => {
                    let claimed = reply.map(Reply::unpack);
                    self.claimed(now, offer, claimed, committed.claim_goes_on);
                }
            }
        }
        // The claims of this batch came before the callbacks of batches of jobs, which are enqueued at its end.
        if self.demand.record_behind(&committed.changes) {
            self.next_wakeup = Some(now);
        }
        if !self.demand.has_shared() {
            self.share.record_chance();
        }
        self.signals
            .publish(now, committed.first_change, &committed.changes);
    }

    pub(super) fn carry_out(&mut self, now: Time, job: JobId, effect: Effect) {
        match effect {
            Effect::Stop {
                lease,
                grace_ms,
                reason,
            } => {
                if !self.workers.table.stop(job, lease, grace_ms) {
                    self.cells.pool.stop(now, lease, grace_ms, &reason);
                }
            }
            Effect::Revoke { lease, why } => {
                self.attempts.forget_params(lease);
                // First: until then heartbeats are answered from memory and report progress.
                self.workers.table.forget_stored(job);
                self.signals.shared.live.forget(job);
                if why == Revocation::TimedOut
                    && let Some(worker) = self.workers.table.worker(job)
                {
                    tracing::warn!(%job, worker, "a worker exceeded its time limit");
                }
                if self.workers.table.revoke(job, lease, why) {
                    self.signals.numbers.lost();
                } else {
                    self.cells.pool.revoke(now, lease);
                }
            }
            // The store has done these.
            Effect::AttemptLost { .. } | Effect::Failed { .. } | Effect::Purge => {}
        }
    }

    fn finished(&mut self, finished: Option<&Finished>, reply: Result<Box<Lifecycle>, Rejection>) {
        match reply {
            Ok(job) => {
                if let Some(End::Wrote(report, wrote)) = finished.map(|it| &it.end) {
                    let refused = refused_writes(&job);
                    let outcome = refused.as_ref().unwrap_or(&report.outcome);
                    let numbers = &self.signals.numbers;
                    numbers.ended_in_cell(&wrote.ran, outcome, report.meter);
                }
                self.demand.record_job(&job);
            }
            Err(rejection) => tracing::debug!(%rejection, "the end of an attempt was rejected"),
        }
    }

    fn claimed(
        &mut self,
        now: Time,
        mut offer: Offer,
        reply: Result<Vec<Claimed>, Rejection>,
        goes_on: bool,
    ) {
        let claimed = reply.unwrap_or_else(|rejection| {
            tracing::error!(%rejection, "the store rejected a claim");
            Vec::new()
        });
        let is_shared = |job: &&Claimed| Lane::Shared.has(&job.lifecycle);
        let shared = claimed.iter().filter(is_shared).count();
        self.share.record_claims(shared);
        let bytes = |job: &Claimed| job.payload.params.as_str().len();
        let all_bytes: usize = claimed.iter().map(bytes).sum();
        // A claim that reached its byte limit does not show how many jobs are left.
        if all_bytes < offer.params_bytes_max {
            self.exhausted(&mut offer, &claimed, goes_on);
        }
        let mut requests = BTreeMap::new();
        let mut groups = Groups::new(offer.apart.len());
        for mut job in claimed {
            if let Some(lease) = job.lifecycle.lease.as_ref().map(|lease| lease.id) {
                let worker = offer.slots.get(&lease).map(|(_, worker)| worker.as_str());
                self.attempts.begin(now, lease, &mut job, worker);
                self.signals.numbers.began(now, &job.lifecycle);
                offer.regroup(lease, job.lifecycle.suspicion, &mut groups);
            }
            self.start(now, &mut offer, job, &mut requests);
        }
        for (request, claimed) in requests {
            for untaken in self.workers.grant(now, request, claimed) {
                let (job, lease) = (untaken.job, untaken.lease);
                let (loss, executor) = (Loss::NotBegun, untaken.worker);
                let end = End::Lost {
                    loss,
                    executor,
                    requests: None,
                };
                self.attempts.finish(Finished { job, lease, end });
            }
        }
    }

    /// Records the lanes that had fewer jobs than slots. If the claim continues, shared cells may still find some.
    fn exhausted(&mut self, offer: &mut Offer, claimed: &[Claimed], goes_on: bool) {
        let found = |lane: &Lane| {
            let jobs = claimed.iter().filter(|job| lane.has(&job.lifecycle));
            jobs.count()
        };
        if found(&Lane::Shared) < offer.shared && !goes_on {
            self.demand.exhaust_shared();
        }
        if !offer.apart.is_empty() && found(&Lane::Apart) == 0 {
            self.demand.exhaust_suspects();
        }
        for (executor, offered) in std::mem::take(&mut offer.executors) {
            let found = found(&Lane::Executor(executor.clone()));
            self.demand.record_claim(&executor, offered, found);
        }
    }

    /// Starts a claimed job in its cell, adds it to those of its request, or records why it cannot start.
    fn start(
        &mut self,
        now: Time,
        offer: &mut Offer,
        claimed: Claimed,
        requests: &mut BTreeMap<RequestId, Vec<(LeaseId, Claimed)>>,
    ) {
        let job = claimed.lifecycle.id;
        let Some(lease) = claimed.lifecycle.lease.as_ref().map(|lease| lease.id) else {
            return;
        };
        let (slot, worker) = match offer.slots.remove(&lease) {
            Some((Target::Cell(slot), worker)) => (slot, worker),
            Some((Target::Request(request, _), _)) => {
                return requests.entry(request).or_default().push((lease, claimed));
            }
            Some((Target::Unconfigured(_), worker)) => {
                let end = End::Reported(Box::new(Unconfigured::report(worker)));
                return self.attempts.finish(Finished { job, lease, end });
            }
            None => return,
        };
        let enqueued_at = claimed.lifecycle.enqueued_at;
        let request = start::request(claimed, lease, &worker);
        let end = match self.cells.start(now, &slot, request) {
            Ok(()) => return,
            Err(NotStarted::CellGone) => End::Lost {
                loss: Loss::NotBegun,
                executor: worker,
                requests: None,
            },
            Err(NotStarted::Refused(refused)) if self.may_run_elsewhere(&refused, enqueued_at) => {
                End::Lost {
                    loss: Loss::Unloaded,
                    executor: worker,
                    requests: None,
                }
            }
            Err(NotStarted::Refused(refused)) => End::Reported(Box::new(Report {
                outcome: Outcome::Failed(refused.failure),
                meter: Meter::default(),
                progress: None,
                executor: worker,
                revision: refused.revision,
                worker: None,
                requests: None,
            })),
        };
        self.attempts.finish(Finished { job, lease, end });
    }

    /// Records a change in the demand for executors.
    pub(super) fn record_demand(&mut self, change: &Change) {
        if let Some(executor) = &change.executor
            && change.to == Some(State::Available)
        {
            self.await_executor(executor);
        }
        self.demand.record_change(change);
    }

    /// Counts on jobs for an executor.
    pub(super) fn await_executor(&mut self, executor: &Name) {
        if self.demand.add_executor(executor) {
            self.unconfigured.check(executor);
        }
    }
}
