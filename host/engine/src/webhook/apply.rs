//! Notifies receivers of jobs that have ended: makes deliveries, and enqueues them at the end of the batch, in the same commit.

use std::collections::BTreeMap;

use host_core::job::{Lifecycle, NewJob};
use host_core::transition::Effect;

use super::Ending;
use crate::limit::WhenFull;
use crate::{Batch, Rows, Stop, StoreError};

impl<R: Rows> Batch<'_, R> {
    /// Notes why a job with receivers has failed, if no worker has reported it.
    pub(crate) fn note_failure(&mut self, job: &Lifecycle, effects: &[Effect]) {
        if job.notify.is_empty() {
            return;
        }
        for effect in effects {
            if let Effect::AttemptLost { failure } | Effect::Failed { failure } = effect {
                self.ending.failure = Some(failure.clone());
            }
        }
    }

    /// Makes the deliveries of a job's end.
    pub(crate) fn make_deliveries(
        &mut self,
        before: &Lifecycle,
        after: &mut Lifecycle,
    ) -> Result<(), Stop> {
        if after.notify.is_empty() {
            return Ok(());
        }
        let ending = std::mem::take(&mut self.ending);
        if after.state.is_terminal() && !before.state.is_terminal() {
            let payload = self.rows.payload(after.id)?;
            self.deliveries
                .extend(super::deliveries(after, self.now, &payload, &ending));
        }
        Ok(())
    }

    /// Notes what a worker reports of a job with receivers.
    pub(crate) fn note_outcome(&mut self, job: &Lifecycle, ending: impl FnOnce() -> Ending) {
        if !job.notify.is_empty() {
            self.ending = ending();
        }
    }

    /// Enqueues deliveries. Nothing refuses them: what they report has happened. They may wait for limits, but not be
    /// refused or replaced by them.
    pub(crate) fn deliver(&mut self, deliveries: Vec<NewJob>) -> Result<(), StoreError> {
        self.read_keys(deliveries.iter())?;
        for mut new in deliveries {
            new.policy.retention = self.bounds.capacity.deliveries;
            let limits = self.rows.limits()?;
            let mut keys = self.concerning.keys_of(&limits, &new).unwrap_or_default();
            keys.retain(|it| {
                let limit = limits.get(it.key.limit);
                limit.is_some_and(|limit| limit.when_full == WhenFull::Wait)
            });
            // The delivery before may have ended, and may be forgotten.
            let before = std::mem::take(&mut new.depends_on);
            for id in before {
                let job = self.readable_job(id)?;
                if job.is_some_and(|job| !job.state.is_terminal()) {
                    new.depends_on.push(id);
                }
            }
            match self.accept(new, keys, &BTreeMap::new()) {
                Ok(()) => {}
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::Rejected(rejection)) => {
                    return Err(StoreError::Damaged {
                        what: "a delivery to enqueue".to_owned(),
                        message: rejection.to_string(),
                    });
                }
            }
        }
        Ok(())
    }
}
