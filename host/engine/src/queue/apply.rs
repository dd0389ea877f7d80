//! Applies the commands about queues.

use std::collections::BTreeSet;

use host_core::name::Name;

use super::{QueueRefusal, RemoveQueue, SetPaused};
use crate::{Batch, Rows, Stop};

impl<R: Rows> Batch<'_, R> {
    /// Checks that the queues exist or may be created.
    pub(crate) fn check_queues<'n>(
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

    pub(super) fn set_paused(
        &mut self,
        SetPaused { queue, paused }: &SetPaused,
    ) -> Result<(), Stop> {
        self.check_queues([queue])?;
        self.rows.set_paused(queue, *paused)?;
        Ok(())
    }

    pub(super) fn remove_queue(&mut self, RemoveQueue { queue }: &RemoveQueue) -> Result<(), Stop> {
        Ok(self.rows.remove_queue(queue)??)
    }
}
