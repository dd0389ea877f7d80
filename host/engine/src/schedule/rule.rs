//! What a schedule does with the nominal times that have come.

use host_core::id::JobId;
use host_core::time::Time;

use super::{
    Calendar, CatchUp, Fate, Firing, HELD_MAX, KeptSchedule, NOMINALS_MAX, OPEN_MAX, Overlap,
    Progress, Schedule,
};

/// A job to enqueue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    pub id: JobId,
    pub nominal: Time,
    /// The nominal time of the job before it.
    pub previous: Option<Time>,
}

/// What to do, and what has become of the schedule then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub progress: Progress,
    pub starts: Vec<Start>,
    /// Jobs to cancel.
    pub cancels: Vec<JobId>,
    pub firings: Vec<Firing>,
}

/// A plan that is being made.
struct Planning<'a> {
    schedule: &'a Schedule,
    now: Time,
    /// Ids of jobs that may be enqueued.
    ids: std::slice::Iter<'a, JobId>,
    /// Why no job can be enqueued.
    refused: Option<&'a str>,
    plan: Plan,
}

impl KeptSchedule {
    /// Plans what is due at the time `now`: at most one job for each of `ids`, and none if they are `refused`.
    /// Handles at most [`NOMINALS_MAX`] nominal times; more may be due.
    pub fn plan(
        &self,
        now: Time,
        ids: &[JobId],
        refused: Option<&str>,
        is_open: impl Fn(JobId) -> bool,
    ) -> Plan {
        let mut planning = self.planning(now, ids, refused, is_open);
        if self.schedule.is_paused {
            return planning.plan;
        }
        let calendar = match self.schedule.calendar() {
            Ok(calendar) => calendar,
            Err(error) => {
                planning.plan.progress.refused = Some(error.to_string());
                return planning.plan;
            }
        };
        if self.lags(&calendar, now) {
            planning.begin_anew(&calendar);
        }
        // A newer time takes the place of the one that waits.
        if self.schedule.overlap == Overlap::Cancel {
            planning.meet_due(&calendar);
            planning.release();
        } else {
            planning.release();
            planning.meet_due(&calendar);
        }
        planning.plan
    }

    /// Plans jobs for these nominal times, whatever is due and whatever runs.
    pub fn plan_at(
        &self,
        nominals: &[Time],
        now: Time,
        ids: &[JobId],
        refused: Option<&str>,
        is_open: impl Fn(JobId) -> bool,
    ) -> Plan {
        let mut planning = self.planning(now, ids, refused, is_open);
        for nominal in nominals {
            planning.start(*nominal);
        }
        // No one expected these jobs earlier.
        planning.plan.progress.counts.late = self.progress.counts.late;
        planning.plan
    }

    fn planning<'a>(
        &'a self,
        now: Time,
        ids: &'a [JobId],
        refused: Option<&'a str>,
        is_open: impl Fn(JobId) -> bool,
    ) -> Planning<'a> {
        let mut progress = self.progress.clone();
        progress.open.retain(|id| is_open(*id));
        progress.version += 1;
        Planning {
            schedule: &self.schedule,
            now,
            ids: ids.iter(),
            refused,
            plan: Plan {
                progress,
                starts: Vec::new(),
                cancels: Vec::new(),
                firings: Vec::new(),
            },
        }
    }
}

impl Planning<'_> {
    /// Enqueues the first job that waits for others to end, if they have.
    fn release(&mut self) {
        let progress = &mut self.plan.progress;
        if progress.open.is_empty() && !progress.held.is_empty() && self.ids.len() > 0 {
            let nominal = progress.held.remove(0);
            self.start(nominal);
        }
    }

    /// Takes the next nominal time from the clock as it is now.
    fn begin_anew(&mut self, calendar: &Calendar) {
        let since = self.now.minus_ms(self.schedule.offset_ms());
        let next = self.schedule.times_of(calendar, since).next();
        let progress = &mut self.plan.progress;
        progress.next = next;
        // A job works on the time since the one before it.
        progress.previous = progress.previous.filter(|before| Some(*before) < next);
    }

    /// Decides about the nominal times that have come, oldest first.
    fn meet_due(&mut self, calendar: &Calendar) {
        let offset_ms = self.schedule.offset_ms();
        let now = self.now;
        let is_due = |time: &Time| time.plus_ms(offset_ms) <= now;
        let is_missed = |time: Time| time.plus_ms(offset_ms + self.schedule.window_ms) < now;
        let most = match (self.ids.len(), self.schedule.catch_up) {
            (0, _) => 0,
            (jobs, CatchUp::All) => jobs.min(NOMINALS_MAX),
            (_, CatchUp::Last | CatchUp::None) => NOMINALS_MAX,
        };
        let mut next = self.plan.progress.next;
        let mut due = Vec::new();
        let first = next.unwrap_or_default();
        let mut coming = self.schedule.times_of(calendar, first);
        while let Some(nominal) = next.filter(is_due).filter(|_| due.len() < most) {
            due.push(nominal);
            next = coming.next();
        }
        self.plan.progress.next = next;
        let is_last = next.as_ref().is_none_or(|next| !is_due(next));
        let first = match self.schedule.catch_up {
            CatchUp::All => due.iter().position(|nominal| !is_missed(*nominal)),
            CatchUp::Last => due.len().checked_sub(1),
            CatchUp::None => {
                let is_overdue = |last: &Time| self.schedule.is_late(*last, now);
                let is_late = due.last().is_some_and(is_overdue);
                due.len().checked_sub(1).filter(|_| !is_late)
            }
        };
        let caught_up = first.filter(|_| is_last || self.schedule.catch_up == CatchUp::All);
        let from = caught_up.filter(|caught_up| !is_missed(due[*caught_up]));
        let (missed, met) = due.split_at(from.unwrap_or(due.len()));
        if let Some(last) = missed.last() {
            let times = missed.len() as u64;
            self.plan.progress.counts.missed += times;
            self.record(*last, Fate::Missed(times));
        }
        match met.split_last() {
            Some((newest, others)) if self.schedule.overlap == Overlap::Cancel => {
                let held = std::mem::take(&mut self.plan.progress.held);
                for skipped in held.iter().chain(others) {
                    self.skip(*skipped);
                }
                self.plan.cancels.clone_from(&self.plan.progress.open);
                self.meet(*newest);
            }
            _ => met.iter().for_each(|nominal| self.meet(*nominal)),
        }
    }

    /// Decides about a nominal time that has come and is not missed.
    fn meet(&mut self, nominal: Time) {
        // Times that are made up for run in turn: at their own times, they would not have met.
        let is_made_up =
            self.schedule.catch_up == CatchUp::All && self.schedule.is_late(nominal, self.now);
        let progress = &mut self.plan.progress;
        let is_free = progress.open.is_empty() && progress.held.is_empty();
        let has_room = progress.held.len() < HELD_MAX;
        match self.schedule.overlap {
            _ if is_free => self.start(nominal),
            Overlap::Allow => self.start(nominal),
            Overlap::QueueOne if progress.held.is_empty() => self.hold(nominal),
            Overlap::QueueAll if has_room => self.hold(nominal),
            Overlap::Skip | Overlap::QueueOne if is_made_up && has_room => self.hold(nominal),
            Overlap::Cancel => self.hold(nominal),
            Overlap::Skip | Overlap::QueueOne | Overlap::QueueAll => self.skip(nominal),
        }
    }

    fn start(&mut self, nominal: Time) {
        let progress = &mut self.plan.progress;
        let fate = match (self.refused, self.ids.next()) {
            (None, Some(id)) => {
                let previous = progress.previous;
                self.plan.starts.push(Start {
                    id: *id,
                    nominal,
                    previous,
                });
                progress.previous = previous.max(Some(nominal));
                progress.open.push(*id);
                if progress.open.len() > OPEN_MAX {
                    progress.open.remove(0);
                }
                progress.counts.fired += 1;
                progress.counts.late += u64::from(self.schedule.is_late(nominal, self.now));
                Fate::Fired(*id)
            }
            (refused, _) => {
                progress.counts.failed += 1;
                Fate::Failed(refused.unwrap_or("too many jobs in one firing").to_owned())
            }
        };
        self.record(nominal, fate);
    }

    fn hold(&mut self, nominal: Time) {
        self.plan.progress.held.push(nominal);
        self.record(nominal, Fate::Held);
    }

    fn skip(&mut self, nominal: Time) {
        self.plan.progress.counts.skipped += 1;
        self.record(nominal, Fate::Skipped);
    }

    fn record(&mut self, nominal: Time, fate: Fate) {
        self.plan.progress.recorded += 1;
        let at = self.now;
        self.plan.firings.push(Firing { nominal, at, fate });
    }
}
