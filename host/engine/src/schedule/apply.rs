//! Schedules: setting them, and letting them fire.

use std::collections::BTreeSet;

use host_core::id::JobId;
use host_core::job::NewJob;
use host_core::name::Name;
use host_core::time::Time;
use host_core::transition::Input;

use super::tables::{FIRINGS, NumberedFiring, SCHEDULES};
use super::{
    FIRINGS_KEPT, Fire, Firing, KeptSchedule, RemoveSchedule, SCHEDULES_MAX, Schedule,
    ScheduleRefusal, SetSchedule, Start,
};
use crate::table::{Range, Record as _};
use crate::{Batch, Rows, Stop, StoreError};

/// Why a schedule cancels its jobs.
const CANCELLED: &str = "the schedule fired again";

impl<R: Rows> Batch<'_, R> {
    pub(super) fn set_schedule(&mut self, set: &SetSchedule) -> Result<(), Stop> {
        let before = self.before(&set.schedule)?;
        if before.is_none() {
            self.check_schedules(1)?;
        }
        let kept = KeptSchedule::set(Schedule::clone(&set.schedule), before, set.wall);
        self.rows.put(&kept)?;
        Ok(())
    }

    /// Sets schedules in place of others that came from the same component, and removes those of `before` that are not
    /// among them. Those that are there stay paused or not. Refused as a whole.
    pub(crate) fn set_schedules(
        &mut self,
        before: &[Schedule],
        after: &[Schedule],
        wall: Time,
    ) -> Result<(), Stop> {
        let mut set = Vec::new();
        for new in after {
            set.push((new, self.before(new)?));
        }
        self.check_schedules(set.iter().filter(|(_, before)| before.is_none()).count())?;
        for (new, before) in set {
            let new = new.with_paused_of(before.as_ref().map(|before| &before.schedule));
            if before.as_ref().is_none_or(|before| before.schedule != new) {
                let kept = KeptSchedule::set(new, before, wall);
                self.rows.put(&kept)?;
            }
        }
        for old in before {
            if after.iter().all(|new| new.name != old.name) {
                self.delete_schedule(&old.name)?;
            }
        }
        Ok(())
    }

    /// Returns what a schedule replaces: one with its name and its source.
    fn before(&mut self, new: &Schedule) -> Result<Option<KeptSchedule>, Stop> {
        let before: Option<KeptSchedule> = self.rows.get(&new.name)?;
        match &before {
            Some(before) if before.schedule.source != new.source => Err(ScheduleRefusal::Owned {
                schedule: new.name.clone(),
                owner: before.schedule.source.clone(),
            }
            .into()),
            _ => Ok(before),
        }
    }

    /// Checks that so many more schedules may be kept.
    fn check_schedules(&mut self, more: usize) -> Result<(), Stop> {
        let limit = SCHEDULES_MAX;
        if more > 0 && self.rows.count_rows(&SCHEDULES, Range::all())? + more as u64 > limit {
            return Err(ScheduleRefusal::TooMany { limit }.into());
        }
        Ok(())
    }

    pub(super) fn remove_schedule(&mut self, remove: &RemoveSchedule) -> Result<(), Stop> {
        let name = &remove.schedule;
        // It need not be readable.
        let rows = self
            .rows
            .get_rows(&SCHEDULES, vec![KeptSchedule::key(name)])?;
        if rows.iter().flatten().next().is_none() {
            return Err(ScheduleRefusal::Unknown(name.clone()).into());
        }
        self.delete_schedule(name)?;
        Ok(())
    }

    /// Removes a schedule with its firings.
    pub(crate) fn delete_schedule(&mut self, name: &Name) -> Result<(), StoreError> {
        self.rows.remove::<KeptSchedule>(name)?;
        let firings = Range::of(KeptSchedule::key(name));
        self.rows.delete_rows(&FIRINGS, firings)?;
        Ok(())
    }

    /// Adds firings, of which the last has the number `last`, and forgets those that are too old to keep.
    fn add_firings(&mut self, name: &Name, last: u64, new: Vec<Firing>) -> Result<(), StoreError> {
        let first = last - new.len() as u64;
        for (number, firing) in (first + 1..).zip(new) {
            let schedule = name.clone();
            self.rows.put(&NumberedFiring {
                schedule,
                number,
                firing,
            })?;
        }
        let old = last.saturating_sub(FIRINGS_KEPT);
        let old = Range::of(KeptSchedule::key(name)).up_to(old);
        self.rows.delete_rows(&FIRINGS, old)?;
        Ok(())
    }

    /// Enqueues what a schedule plans. If a job is refused, nothing happens.
    pub(super) fn fire(&mut self, fire: &Fire) -> Result<Vec<Firing>, Stop> {
        let name = &fire.schedule;
        let kept: Option<KeptSchedule> = self.rows.get(name)?;
        let kept = kept.ok_or_else(|| ScheduleRefusal::Unknown(name.clone()))?;
        if kept.progress.version != fire.version {
            return Err(ScheduleRefusal::Changed(name.clone()).into());
        }
        let mut open = BTreeSet::new();
        for id in &kept.progress.open {
            let job = self.readable_job(*id)?;
            if job.is_some_and(|job| !job.state.is_terminal()) {
                open.insert(*id);
            }
        }
        let is_open = |id: JobId| open.contains(&id);
        let refused = fire.job.as_ref().err().map(String::as_str);
        let plan = match &fire.nominals {
            Some(nominals) => kept.plan_at(nominals, fire.wall, &fire.ids, refused, is_open),
            None => kept.plan(fire.wall, &fire.ids, refused, is_open),
        };
        if let Ok(job) = &fire.job {
            let starts = plan.starts.iter();
            let jobs: Vec<NewJob> = starts.map(|start| job_of(job, name, start)).collect();
            if !jobs.is_empty() {
                self.enqueue(&jobs)?;
            }
        }
        for id in plan.cancels {
            let (reason, grace_ms) = (Some(CANCELLED), None);
            let job = self.get(id)?;
            self.apply(&job, &Input::Cancel { reason, grace_ms })?;
        }
        let last = plan.progress.recorded;
        self.rows.put(&kept.with(plan.progress))?;
        self.add_firings(name, last, plan.firings.clone())?;
        Ok(plan.firings)
    }
}

/// Makes the job for a nominal time.
fn job_of(like: &NewJob, schedule: &Name, start: &Start) -> NewJob {
    let mut job = like.clone();
    job.id = start.id;
    let attributes = &mut job.payload.attributes;
    attributes.push(("schedule.name".to_owned(), schedule.to_string()));
    attributes.push(("schedule.nominal".to_owned(), start.nominal.to_rfc3339()));
    let previous = start.previous.map(Time::to_rfc3339);
    attributes.extend(previous.map(|previous| ("schedule.previous".to_owned(), previous)));
    job
}
