//! Turns what cells report about foreign work into answers to its sessions.

use host_cells::pool::{PoolEvent, Run};
use host_cells::port::CellPort;
use host_core::failure::{Failure, FailureKind};
use host_core::id::JobId;
use host_core::outcome::{Meter, Outcome, Report};
use host_core::time::Time;
use host_core::transition::Loss;

use super::{QueuedWork, RESTARTS_MAX, Running, Work, bytes_of};
use crate::foreign::span;
use crate::logged::Logged;
use crate::numbers::RunStats;
use crate::span::SpanEnd;

impl<P: CellPort> Work<P> {
    /// Handles a cell's message or death.
    pub(super) fn handle_pool_event(&mut self, now: Time, event: PoolEvent) {
        match event {
            PoolEvent::Ended {
                run,
                outcome,
                meter,
            } => {
                let numbers = &self.wiring.numbers;
                numbers.ended_in_cell(&RunStats::of(&run, now), &outcome, meter);
                self.ended(now, run, outcome, meter);
            }
            PoolEvent::Damaged { component } => self.wiring.cells.record_damaged(component),
            PoolEvent::Lost { run, loss } => {
                self.wiring.numbers.lost();
                let mut failure = loss.failure();
                if loss == Loss::Innocent && self.close_by.is_none() {
                    let running = self.running.get(&run.lease);
                    match running.map(|running| (running.stop, running.restarts)) {
                        Some((Some(why), _)) => {
                            failure = Failure::new(FailureKind::Cancelled, why.as_str());
                        }
                        Some((None, restarts)) if restarts < RESTARTS_MAX => {
                            return self.restart(now, &run, &Outcome::Failed(failure));
                        }
                        _ => {}
                    }
                }
                self.ended(now, run, Outcome::Failed(failure), Meter::default());
            }
            PoolEvent::Used { .. } => {}
            PoolEvent::Progressed { job, progress, .. } => {
                if let Some(running) = self.of_job(job) {
                    running.reply.progressed(progress);
                }
            }
            PoolEvent::Logged {
                job,
                attempt,
                started_at,
                lines,
            } => {
                if let Some(running) = self.of_job(job).filter(|running| running.wants_log) {
                    running.reply.logged(started_at, lines.clone());
                }
                let homeless = self
                    .of_job(job)
                    .and_then(|running| running.homeless.as_ref());
                if let (Some(logs), Some((name, number))) = (&self.wiring.fallback_logs, homeless) {
                    logs(name, *number, started_at, lines.clone());
                }
                if let Some(logs) = &self.wiring.logs {
                    logs.send(Logged::Lines {
                        job,
                        attempt,
                        started_at,
                        lines,
                    });
                }
            }
        }
    }

    fn of_job(&self, job: JobId) -> Option<&Running> {
        self.running.get(self.by_job.get(&job)?)
    }

    /// Lets a run begin again in another cell, before all work that waits: the host has killed its cell because of
    /// another run, or the cell did not start.
    fn restart(&mut self, now: Time, run: &Run, outcome: &Outcome) {
        if let Some(running) = self.finish(now, run, outcome) {
            self.waiting_bytes += bytes_of(&running.job);
            self.waiting.push_front(QueuedWork {
                key: running.key,
                job: running.job,
                reply: running.reply,
                is_checked: true,
                restarts: running.restarts + 1,
            });
        }
    }

    /// Takes out a run that has ended.
    fn finish(&mut self, now: Time, run: &Run, outcome: &Outcome) -> Option<Running> {
        let mut running = self.running.remove(&run.lease)?;
        self.by_key.remove(&running.key);
        self.by_job.remove(&running.ids.job);
        span::close(&running.span, outcome, now.since_ms(running.started_at));
        if let Some((open, spans)) = running.traced.take().zip(self.wiring.spans.as_ref()) {
            spans.ended(open.end_as(now, SpanEnd::from(outcome)));
        }
        Some(running)
    }

    fn ended(&mut self, now: Time, run: Run, outcome: Outcome, meter: Meter) {
        let Some(running) = self.finish(now, &run, &outcome) else {
            return;
        };
        self.wiring.numbers.foreign_ended(running.wire, &outcome);
        let Some(history) = self.wiring.history.as_ref() else {
            return running.reply.ended(outcome, meter);
        };
        running.reply.ended(outcome.clone(), meter);
        let report = Report {
            outcome,
            meter,
            progress: None,
            executor: run.executor,
            revision: Some(run.revision),
            worker: None,
            requests: run.requests,
        };
        history.keep(running.ids, *running.job, (running.started_at, now), report);
    }
}
