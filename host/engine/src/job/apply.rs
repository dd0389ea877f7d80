//! Applies the commands about one job, and lets time pass.

use host_core::job::Lifecycle;
use host_core::time::Time;
use host_core::transition::Input;

use super::{Cancel, Enqueue, EnqueueOnce, Enqueued, Purge, Reschedule, SetPriority, Tick, Ticked};
use crate::{Batch, Rows, Stop};

/// How long a tick takes at most, in milliseconds, besides its last job; and how long the commands of a batch settle
/// jobs that wait for others. What is still due waits for the next tick.
const TICK_MS_MAX: u64 = 10;

impl<R: Rows> Batch<'_, R> {
    pub(super) fn enqueue_request(
        &mut self,
        Enqueue(jobs): &Enqueue,
    ) -> Result<Vec<Enqueued>, Stop> {
        self.enqueue(jobs)
    }

    pub(super) fn enqueue_once(
        &mut self,
        EnqueueOnce(new): &EnqueueOnce,
    ) -> Result<Vec<Enqueued>, Stop> {
        if let Some(job) = self.rows.job(new.id)? {
            return Ok(vec![Enqueued {
                id: job.id,
                state: job.state,
                existing: true,
                params_differ: false,
            }]);
        }
        self.enqueue(std::slice::from_ref(new))
    }

    pub(super) fn cancel(&mut self, cancel: &Cancel) -> Result<Box<Lifecycle>, Stop> {
        let (reason, grace_ms) = (cancel.reason.as_deref(), cancel.grace_ms);
        self.moved(cancel.job, &Input::Cancel { reason, grace_ms })
    }

    pub(super) fn set_priority(&mut self, set: &SetPriority) -> Result<Box<Lifecycle>, Stop> {
        self.moved(set.job, &Input::SetPriority(set.priority))
    }

    pub(super) fn reschedule(&mut self, reschedule: &Reschedule) -> Result<Box<Lifecycle>, Stop> {
        self.moved(reschedule.job, &Input::Reschedule(reschedule.run_at))
    }

    pub(super) fn purge(&mut self, purge: &Purge) -> Result<Box<Lifecycle>, Stop> {
        self.moved(purge.job, &Input::Purge)
    }

    pub(super) fn tick(&mut self, &Tick { limit }: &Tick) -> Result<Ticked, Stop> {
        let until = self.in_time();
        let of_commands = std::mem::replace(&mut self.until, until);
        let mut handled = self.go_on(limit as usize)?;
        // The other half is for jobs that are due.
        let rest = (limit as usize).saturating_sub(handled).div_ceil(2);
        handled += self.go_on_with_limits(rest)?;
        let rest = (limit as usize).saturating_sub(handled).div_ceil(2);
        handled += self.go_on_with_batches(rest)?;
        let mut jobs = u32::try_from(handled).unwrap_or(u32::MAX);
        let limit = limit.saturating_sub(jobs);
        for id in self.rows.due(self.now, limit)? {
            // An earlier job in this tick may have settled this one.
            if let Some(job) = self.readable_job(id)? {
                self.apply(&job, &Input::Tick)?;
            }
            jobs += 1;
            if self.is_late() {
                break;
            }
        }
        self.until = of_commands;
        Ok(Ticked { jobs })
    }

    /// Returns when work that begins now must end, besides its last job.
    pub(crate) fn in_time(&self) -> Option<Time> {
        let clock = self.bounds.clock.as_deref()?;
        Some(clock.now().plus_ms(TICK_MS_MAX))
    }

    /// Returns whether such work has taken as long as it may. What is left is still due then.
    pub(crate) fn is_late(&self) -> bool {
        let clock = self.bounds.clock.as_deref();
        let end = clock.zip(self.until);
        end.is_some_and(|(clock, until)| clock.now() >= until)
    }
}
