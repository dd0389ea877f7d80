//! What cells and foreign runners say of attempts, on its way into the next batch.

use host_core::outcome::{Meter, Report};
use host_core::time::Time;
use host_core::transition::Loss;

use super::batch::{End, Finished};
use super::{Phase, Writer};
use crate::cells::pool::Heard;
use crate::cells::port::CellPort;
use crate::dispatch::events::Happened;
use crate::dispatch::logged::Logged;
use crate::dispatch::runners::{self, Ended};

impl<P: CellPort> Writer<P> {
    /// Takes in what became of an execution at a runner.
    pub(super) fn hear_runner(&mut self, now: Time, ended: Ended) {
        let Ended { run, executor, end } = ended;
        let end = match end {
            runners::End::Outcome(outcome) => {
                let ran_ms = now.since_ms(run.started_at);
                self.numbers.ended(&outcome, ran_ms);
                End::Reported(Box::new(Report {
                    outcome,
                    meter: Meter::default(),
                    progress: None,
                    executor,
                    revision: None,
                }))
            }
            runners::End::Lost(reason) => {
                self.numbers.lost();
                tracing::warn!(job = %run.job, executor, reason, "a runner has lost a job");
                let loss = match self.phase {
                    Phase::Ending => Loss::HostRestarted,
                    Phase::Running | Phase::Draining => Loss::WorkerGone,
                };
                End::Lost { loss, executor }
            }
            runners::End::NoRoom => End::Lost {
                loss: Loss::NotBegun,
                executor,
            },
        };
        self.finish(Finished {
            job: run.job,
            lease: run.lease,
            end,
        });
    }

    /// Takes in what a cell's word or death means.
    pub(super) fn hear(&mut self, now: Time, heard: Heard) {
        match heard {
            Heard::Ended {
                run,
                outcome,
                meter,
            } => {
                self.numbers.ended(&outcome, run.ran_ms(now));
                let report = Report {
                    outcome,
                    meter,
                    progress: self.shared.live.forget(run.job),
                    executor: run.executor,
                    revision: Some(run.revision),
                };
                self.finish(Finished {
                    job: run.job,
                    lease: run.lease,
                    end: End::Reported(Box::new(report)),
                });
            }
            Heard::Lost { run, loss } => {
                self.numbers.lost();
                self.shared.live.forget(run.job);
                self.finish(Finished {
                    job: run.job,
                    lease: run.lease,
                    end: End::Lost {
                        loss,
                        executor: run.executor,
                    },
                });
            }
            Heard::Progressed {
                job,
                attempt,
                progress,
            } => {
                self.shared.live.tell(job, progress.clone());
                let happened = Happened::Progressed {
                    job,
                    attempt,
                    progress,
                };
                self.shared.events.tell(now, [happened]);
            }
            Heard::Logged {
                job,
                attempt,
                started_at,
                lines,
            } => self.logs.tell(Logged::Lines {
                job,
                attempt,
                started_at,
                lines,
            }),
        }
    }
}
