//! Turns messages from cells and deaths of cells into events of runs. A cell may report only on its
//! own runs and only within their limits. A cell that does anything else is killed.

use host_core::cell::{ComponentKey, FromCell, LogLine, RunId, TimeBound};
use host_core::egress::ReportAs;
use host_core::failure::{Failure, FailureKind};
use host_core::id::JobId;
use host_core::outcome::{Meter, Outcome, Progress};
use host_core::secret::Revealed;
use host_core::time::Time;
use host_core::transition::Loss;

use super::cell::{Cell, Kind};
use super::{Isolation, Pool, Run, masking};
use crate::pool::kill_deadline::Overrun;
use crate::pool::suspects::{Death, Verdict, verdict};
use crate::port::{CellEvent, CellId, CellPort};
use crate::run::chain::{AttemptBudget, Next, Planned};

/// How many bytes of log are accepted above a run's limit, for the lines that the host itself adds.
const LOG_SLACK_BYTES: u64 = 64 << 10;

/// How long to wait before the next suspects start if a cell for suspects did not start, in milliseconds.
const APART_PAUSE_MS: u64 = 1_000;

/// What a message from a cell, or its death, means for a run.
#[derive(Debug)]
pub enum PoolEvent {
    Ended {
        run: Run,
        outcome: Outcome,
        /// The use of the run.
        meter: Meter,
    },
    /// A run is lost because its cell died.
    Lost {
        run: Run,
        /// How the lease was lost.
        loss: Loss,
    },
    /// The use of a run so far.
    Used { job: JobId, meter: Meter },
    /// A compiled component cannot be loaded.
    Damaged { component: ComponentKey },
    /// A run reports progress.
    Progressed {
        job: JobId,
        attempt: u32,
        progress: Progress,
    },
    Logged {
        job: JobId,
        attempt: u32,
        /// When the handler that wrote these lines began.
        started_at: Time,
        lines: Vec<LogLine>,
    },
}

impl<P: CellPort> Pool<P> {
    /// Processes an event of a cell and returns what it means.
    pub fn handle_event(&mut self, now: Time, event: CellEvent) -> Vec<PoolEvent> {
        match event {
            CellEvent::Received {
                cell,
                messages,
                room: _room,
            } => {
                let mut events = Vec::with_capacity(messages.len());
                for message in messages {
                    if let Err(breach) = self.handle_message(now, cell, message, &mut events) {
                        self.doom(cell, &breach);
                        break;
                    }
                }
                events
            }
            CellEvent::Planned { run, planned } => {
                self.handle_planned(now, run, planned).into_iter().collect()
            }
            CellEvent::Gone { cell, how } => self.handle_gone(now, cell, &how),
        }
    }

    /// Processes one message. The error says why the cell can no longer be trusted.
    fn handle_message(
        &mut self,
        now: Time,
        id: CellId,
        message: FromCell,
        events: &mut Vec<PoolEvent>,
    ) -> Result<(), String> {
        match message {
            FromCell::Ready { slots } => self.is_ready(id, slots),
            FromCell::LoadFailed { component, message } => {
                let cell = self.cells.get_mut(&id).ok_or("it is unknown")?;
                if !cell.loaded.remove(&component) {
                    return Err(format!("it was never given {component:?}"));
                }
                tracing::error!(cell = cell.name, message, "cannot load a component");
                for run in self.runs.values_mut() {
                    run.unloaded |= run.cell == id && run.component == component;
                }
                events.push(PoolEvent::Damaged { component });
                Ok(())
            }
            FromCell::Log { run, lines } => {
                let run = self.run_of(id, run)?;
                if let Some(mut lines) = run.bounded(lines) {
                    if let Some(revealed) = run.revealed() {
                        masking::lines(&revealed, &mut lines);
                    }
                    events.push(PoolEvent::Logged {
                        job: run.job,
                        attempt: run.attempt,
                        started_at: run.step_started_at,
                        lines,
                    });
                }
                Ok(())
            }
            FromCell::Progress { run, mut progress } => {
                let run = self.run_of(id, run)?;
                if !run.revoked {
                    if let Some(revealed) = run.revealed() {
                        revealed.mask(&mut progress.message);
                    }
                    events.push(PoolEvent::Progressed {
                        job: run.job,
                        attempt: run.attempt,
                        progress,
                    });
                }
                Ok(())
            }
            FromCell::Used { run, meter } => {
                let run = self.run_of(id, run)?;
                if !run.revoked {
                    events.push(PoolEvent::Used {
                        job: run.job,
                        meter,
                    });
                }
                Ok(())
            }
            FromCell::Ended {
                run,
                outcome,
                meter,
            } => {
                self.run_of(id, run)?;
                if let Some(cell) = self.cells.get_mut(&id) {
                    cell.used.record(&meter);
                }
                events.extend(self.handle_ended(now, run, outcome, meter));
                Ok(())
            }
            FromCell::Described { .. } => {
                Err("it sent a description that was not requested".to_owned())
            }
        }
    }

    /// Settles the runs of a cell that has died.
    fn handle_gone(&mut self, now: Time, id: CellId, how: &str) -> Vec<PoolEvent> {
        let Some(cell) = self.cells.remove(&id) else {
            return Vec::new();
        };
        if let Kind::Shared { index } = cell.kind {
            self.respawns[index].died(now, now.since_ms(cell.started_at));
        } else if !cell.ready {
            self.hindered = cell.kind != Kind::Apart;
            self.apart_not_before = now.plus_ms(APART_PAUSE_MS);
        }
        // The pool ended this cell itself: its runs have ended, or the host stops.
        if self.closing && cell.runs.is_empty() {
            tracing::debug!(cell = cell.name, how, "a cell has ended");
        } else if matches!(cell.kind, Kind::Shared { .. }) || !cell.runs.is_empty() {
            let runs = cell.runs.len();
            tracing::warn!(cell = cell.name, how, runs, "a cell has ended");
        }
        let death = death(&cell, self.closing);
        let mut events = Vec::with_capacity(cell.runs.len());
        for run in &cell.runs {
            let verdict = verdict(death, *run, cell.runs.len());
            let Some(run) = self.forget(now, *run) else {
                continue;
            };
            if run.revoked {
                continue;
            }
            events.push(match verdict {
                Verdict::Lost(loss) => PoolEvent::Lost { run, loss },
                Verdict::Overran(overrun) => PoolEvent::Ended {
                    outcome: Outcome::Failed(overran(overrun, &run)),
                    run,
                    meter: Meter::default(),
                },
            });
        }
        events
    }

    fn is_ready(&mut self, id: CellId, slots: u32) -> Result<(), String> {
        let cell = self.cells.get_mut(&id).ok_or("it is unknown")?;
        if cell.ready {
            return Err("it reported ready twice".to_owned());
        }
        if slots == 0 {
            return Err("it has no free slot for a run".to_owned());
        }
        cell.slots_max = cell.slots_max.min(slots);
        cell.ready = true;
        self.hindered = false;
        Ok(())
    }

    fn run_of(&mut self, cell: CellId, run: RunId) -> Result<&mut Run, String> {
        self.runs
            .get_mut(&run)
            .filter(|run| run.cell == cell)
            .ok_or_else(|| format!("it has no run {}", run.0))
    }

    fn handle_ended(
        &mut self,
        now: Time,
        id: RunId,
        outcome: Outcome,
        meter: Meter,
    ) -> Option<PoolEvent> {
        let (outcome, meter) = self.follow(now, id, outcome, meter)?;
        self.settle(now, id, outcome, meter)
    }

    /// Continues a run whose steps are planned.
    fn handle_planned(&mut self, now: Time, id: RunId, planned: Planned) -> Option<PoolEvent> {
        // A run that is gone has been settled.
        let run = self.runs.get_mut(&id)?;
        run.planning = false;
        let left = run.left(now);
        let chain = run.chain.as_mut()?;
        let (outcome, meter) = if run.revoked {
            (Outcome::Cancelled { partial: None }, chain.used())
        } else {
            let next = chain.planned(planned, left);
            self.proceed(now, id, next)?
        };
        self.settle(now, id, outcome, meter)
    }

    fn settle(
        &mut self,
        now: Time,
        id: RunId,
        outcome: Outcome,
        meter: Meter,
    ) -> Option<PoolEvent> {
        let run = self.forget(now, id)?;
        if let Some(cell) = self.cells.get_mut(&run.cell) {
            cell.end(now, id);
            if cell.kind == Kind::Apart && cell.runs.is_empty() {
                cell.doomed = true;
                self.port.kill(run.cell);
            }
        }
        if run.revoked {
            return None;
        }
        tracing::debug!(job = %run.job, ran_ms = run.ran_ms(now), "a run has ended");
        // A later step of a chain fails rather than being lost, because the steps before it have run.
        if run.unloaded && run.step_started_at == run.started_at {
            let loss = Loss::Unloaded;
            return Some(PoolEvent::Lost { run, loss });
        }
        let mut outcome = run.decided().unwrap_or(outcome);
        if let Some(revealed) = run.revealed() {
            masking::outcome(&revealed, &mut outcome);
        }
        let outcome = run.fits(outcome);
        Some(PoolEvent::Ended {
            run,
            outcome,
            meter,
        })
    }

    /// Starts the next step of a chain. Returns how the run ended if there is no next step.
    fn follow(
        &mut self,
        now: Time,
        id: RunId,
        outcome: Outcome,
        meter: Meter,
    ) -> Option<(Outcome, Meter)> {
        let ended = (outcome, meter);
        let Some(run) = self.runs.get_mut(&id).filter(|run| !run.revoked) else {
            return Some(ended);
        };
        let left = run.left(now);
        let Some(chain) = &mut run.chain else {
            return Some(ended);
        };
        let next = chain.next(ended.0, ended.1, left);
        self.proceed(now, id, next)
    }

    /// Executes a chain's command. Returns the outcome if the run has ended.
    fn proceed(&mut self, now: Time, id: RunId, next: Next) -> Option<(Outcome, Meter)> {
        let run = self.runs.get_mut(&id)?;
        let used = run.chain.as_ref()?.used();
        let (program, mut start) = match next {
            Next::Plan(planning) => {
                run.planning = true;
                self.port.plan(id, planning);
                return None;
            }
            Next::End(outcome) => return Some((outcome, used)),
            Next::Run(program, start) => (program, start),
        };
        let Some(cell) = self.cell_of_step(now, id, program.component) else {
            let message = "no cell could take the next action";
            let failure = Failure::new(FailureKind::CellLost, message);
            return Some((Outcome::Failed(failure), used));
        };
        let next = RunId(self.runs_made);
        self.runs_made += 1;
        let mut run = self.runs.remove(&id)?;
        self.leave(now, run.cell, id, cell);
        start.run = next;
        if let Some(door) = &mut start.http {
            let started_at = run.started_at;
            let recorded = run.record;
            let number =
                recorded.unwrap_or_else(|| self.port.record_requests(started_at, &start.context));
            run.record = Some(number);
            door.pass.report_as = Some(ReportAs {
                run: number,
                began_ms: run.ran_ms(now),
                first_span: None,
            });
        }
        self.cells.get_mut(&cell)?.begin(&program, *start);
        run.cell = cell;
        run.component = program.component;
        run.step_started_at = now;
        self.by_lease.insert(run.lease, next);
        self.runs.insert(next, run);
        None
    }

    /// Returns the cell for the next step of a chain: the current one, unless each cell is for one component.
    fn cell_of_step(&mut self, now: Time, id: RunId, component: ComponentKey) -> Option<CellId> {
        let run = self.runs.get(&id)?;
        let (here, same) = (run.cell, run.component == component);
        let cell = self.cells.get(&here).filter(|cell| !cell.doomed)?;
        if same || self.shape.isolation == Isolation::Shared {
            return Some(here);
        }
        if cell.kind == Kind::Apart {
            return Some(self.open(now, Kind::Apart));
        }
        self.has_cell_for(component)
            .then(|| self.cell_of(now, component))
    }

    /// Removes a step that has ended from its cell. The next one runs in the cell `next`.
    fn leave(&mut self, now: Time, id: CellId, run: RunId, next: CellId) {
        let Some(cell) = self.cells.get_mut(&id) else {
            return;
        };
        cell.end(now, run);
        if cell.kind == Kind::Apart && cell.runs.is_empty() && id != next {
            cell.doomed = true;
            self.port.kill(id);
        }
    }

    fn forget(&mut self, now: Time, id: RunId) -> Option<Run> {
        let mut run = self.runs.remove(&id)?;
        self.by_lease.remove(&run.lease);
        let requests = run
            .record
            .map(|number| self.port.recorded_requests(now, number));
        run.requests = requests.filter(|it| it.total > 0).map(Box::new);
        Some(run)
    }
}

impl Run {
    /// Returns the secrets that the attempt has seen, if it has.
    fn revealed(&self) -> Option<Revealed> {
        self.writes.as_ref()?.revealed()
    }

    /// Returns how the host has decided that the attempt ends.
    fn decided(&self) -> Option<Outcome> {
        self.writes.as_ref()?.decided()
    }

    /// Returns what is left of the attempt's limits for the next handler.
    fn left(&self, now: Time) -> AttemptBudget {
        AttemptBudget {
            timeout_ms: self.limits.timeout_ms.saturating_sub(self.ran_ms(now)),
            log_bytes: self.limits.log_bytes_max.saturating_sub(self.logged_bytes),
            stopping: self.kill_deadline.is_stopping(),
        }
    }

    /// Turns a result that exceeds the run's limit into a failure.
    fn fits(&self, outcome: Outcome) -> Outcome {
        let result = match &outcome {
            Outcome::Completed { result } | Outcome::Cancelled { partial: result } => result,
            Outcome::Failed(_) | Outcome::Retry { .. } => return outcome,
        };
        let bytes = result.as_ref().map_or(0, |text| text.as_str().len() as u64);
        let limit = self.limits.result_bytes_max;
        if bytes <= limit {
            return outcome;
        }
        let message =
            format!("the result has {bytes} bytes, more than the handler's limit of {limit} bytes");
        Outcome::Failed(Failure::new(FailureKind::ResultTooLarge, message))
    }

    /// Returns the lines that still fit into the run's log. `None` if none do.
    fn bounded(&mut self, mut lines: Vec<LogLine>) -> Option<Vec<LogLine>> {
        let room = self.limits.log_bytes_max.saturating_add(LOG_SLACK_BYTES);
        let taken = lines
            .iter()
            .take_while(|line| {
                self.logged_bytes += line.cost();
                self.logged_bytes <= room
            })
            .count();
        lines.truncate(taken);
        (!lines.is_empty() && !self.revoked).then_some(lines)
    }
}

fn overran(overrun: Overrun, run: &Run) -> Failure {
    match overrun {
        Overrun::ExceededTimeLimit => {
            let limit = run.limits.timeout_ms;
            let message = match run.time_bound {
                TimeBound::Deadline => format!(
                    "the deadline of the job passed after {limit} ms; the handler did not stop and was killed with \
                     its cell"
                ),
                TimeBound::Handler | TimeBound::Job => format!(
                    "the handler exceeded its limit of {limit} ms and was killed with its cell"
                ),
            };
            Failure::new(FailureKind::TimedOut, message)
        }
        Overrun::IgnoredStop => {
            let message = "the handler did not stop and was killed with its cell";
            Failure::new(FailureKind::Cancelled, message)
        }
    }
}

fn death(cell: &Cell, closing: bool) -> Death<'_> {
    if !cell.culprits.is_empty() {
        Death::Killed(&cell.culprits)
    } else if closing {
        Death::HostStops
    } else if cell.ready {
        Death::Crashed
    } else {
        Death::Unborn
    }
}
