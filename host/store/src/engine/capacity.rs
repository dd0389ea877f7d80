//! Rejects commands that exceed the limits of a store.

use std::collections::BTreeSet;

use host_core::name::Name;
use host_core::rejection::{ComponentRefusal, JobRefusal, QueueRefusal};

use super::{Batch, Rows, Stop};
use crate::table::Range;
use crate::tables::component::COMPONENTS;

impl<R: Rows> Batch<'_, R> {
    /// Checks that the queues exist or may be created.
    pub(super) fn check_queues<'n>(
        &mut self,
        queues: impl IntoIterator<Item = &'n Name>,
    ) -> Result<(), Stop> {
        let mut new = BTreeSet::new();
        for queue in queues {
            if self.rows.has_queue(queue) || !new.insert(queue) {
                continue;
            }
            let limit = self.bounds.capacity.queues_max;
            if self.rows.counts().queues + new.len() as u64 > limit {
                let queue = queue.clone();
                return Err(QueueRefusal::TooMany { queue, limit }.into());
            }
        }
        Ok(())
    }

    /// Checks that this many more jobs may wait.
    pub(super) fn check_live(&mut self, new: usize) -> Result<(), Stop> {
        let (jobs, limit) = (self.rows.counts().live, self.bounds.capacity.jobs_max);
        if new > 0 && jobs.saturating_add(new as u64) > limit {
            return Err(JobRefusal::TooManyWaiting { jobs, limit }.into());
        }
        Ok(())
    }

    /// Checks how many attempts a new job asks for.
    pub(super) fn check_attempts(&self, asked: u32) -> Result<(), Stop> {
        let limit = self.bounds.capacity.attempts_max;
        if asked > limit {
            return Err(JobRefusal::TooManyAttempts { asked, limit }.into());
        }
        Ok(())
    }

    /// Checks that there may be another component.
    pub(super) fn check_components(&mut self, component: &Name) -> Result<(), Stop> {
        let limit = self.bounds.capacity.components_max;
        if self.rows.count_rows(&COMPONENTS, Range::all().marked())? >= limit {
            let component = component.clone();
            return Err(ComponentRefusal::TooMany { component, limit }.into());
        }
        Ok(())
    }
}
