//! Turns what cells and foreign workers report about attempts into the commands of the next batch.

use host_cells::pool::PoolEvent;
use host_cells::port::CellPort;
use host_core::id::JobId;
use host_core::outcome::{Meter, Report};
use host_core::port::{self, lease::AttemptEnd};
use host_core::time::Time;
use host_core::transition::Loss;

use super::batch::{End, Finished, Wrote};
use super::{DispatchLoop, Phase};
use crate::logged::Logged;
use crate::numbers::RunStats;

impl<P: CellPort> DispatchLoop<P> {
    /// Handles the end of an attempt whose lease a connection holds.
    pub(super) fn handle_ended(&mut self, now: Time, ended: AttemptEnd) {
        let AttemptEnd {
            job,
            lease,
            worker,
            end,
        } = ended;
        let Some((handler, granted_at)) = self.workers.table.handler_of(job, lease) else {
            return tracing::debug!(%job, "the end of an attempt came after its lease had ended");
        };
        let progress = self.signals.shared.live.forget(job);
        let end = match end {
            port::End::Outcome(outcome) => {
                self.signals
                    .numbers
                    .ended(now, &handler, &outcome, now.since_ms(granted_at));
                End::Reported(Box::new(Report {
                    outcome,
                    meter: Meter::default(),
                    progress,
                    executor: worker,
                    revision: None,
                    worker: None,
                    requests: None,
                }))
            }
            port::End::Lost(why) => self.lost_by_worker(job, worker, &why, Loss::WorkerGone),
            port::End::LostWithOthers { why, jobs } => {
                self.lost_by_worker(job, worker, &why, Loss::SharedWorkerGone { jobs })
            }
            port::End::NoRoom => End::Lost {
                loss: Loss::NotBegun,
                executor: worker,
                requests: None,
            },
        };
        self.attempts.finish(Finished { job, lease, end });
    }

    fn lost_by_worker(&self, job: JobId, worker: String, reason: &str, loss: Loss) -> End {
        self.signals.numbers.lost();
        tracing::warn!(%job, worker, reason, "a foreign worker lost a job");
        let loss = match self.stops.phase() {
            Phase::Killing => Loss::HostRestarted,
            Phase::Running | Phase::Stopping => loss,
        };
        End::Lost {
            loss,
            executor: worker,
            requests: None,
        }
    }

    /// Handles a cell's message or death.
    pub(super) fn handle_pool_event(&mut self, now: Time, event: PoolEvent) {
        match event {
            PoolEvent::Ended {
                run,
                outcome,
                meter,
            } => {
                self.share.record_end();
                let ran = RunStats::of(&run, now);
                let writes = run.take_writes(&outcome);
                if writes.is_none() {
                    self.signals.numbers.ended_in_cell(&ran, &outcome, meter);
                }
                let report = Box::new(Report {
                    outcome,
                    meter,
                    progress: self.signals.shared.live.forget(run.job),
                    executor: run.executor,
                    revision: Some(run.revision),
                    worker: None,
                    requests: run.requests,
                });
                let end = match writes {
                    None => End::Reported(report),
                    // It is counted when the store has taken what it wrote.
                    Some(writes) => End::Wrote(
                        report,
                        Box::new(Wrote {
                            writes: *writes,
                            ran,
                            _collected: run.writes,
                        }),
                    ),
                };
                let (job, lease) = (run.job, run.lease);
                self.attempts.finish(Finished { job, lease, end });
            }
            PoolEvent::Damaged { component } => self.cells.record_damaged(component),
            PoolEvent::Lost { run, loss } => {
                self.share.record_end();
                self.signals.numbers.lost();
                self.signals.shared.live.forget(run.job);
                let is_cut = self.lifeline.as_ref().is_some_and(|line| line.is_cut());
                let loss = if is_cut { Loss::HostRestarted } else { loss };
                self.attempts.finish(Finished {
                    job: run.job,
                    lease: run.lease,
                    end: End::Lost {
                        loss,
                        executor: run.executor,
                        requests: run.requests,
                    },
                });
            }
            PoolEvent::Used { job, meter } => self.signals.shared.live.used(job, meter),
            PoolEvent::Progressed {
                job,
                attempt,
                progress,
            } => self.signals.shared.progressed(now, job, attempt, progress),
            PoolEvent::Logged {
                job,
                attempt,
                started_at,
                lines,
            } => self.signals.logs.send(Logged::Lines {
                job,
                attempt,
                started_at,
                lines,
            }),
        }
    }
}
