//! What handlers cost, shared between the loops that count it and the API that shows it. After a
//! restart it begins with the attempts that the store has.

use std::sync::Arc;

use host_core::cost::{Costs, DAY_MS, RevisionCost, Sample};
use host_core::time::Time;
use parking_lot::Mutex;

use crate::Dispatch;

/// How many attempts are read from the store at most, the newest first.
const RELOADED_MAX: u32 = 100_000;

/// The costs of all handlers. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct CostBook(Arc<Mutex<Costs>>);

impl CostBook {
    /// Counts an attempt.
    pub fn add(&self, handler: &str, revision: (&str, u32), at: Time, sample: Sample) {
        self.0.lock().add(handler, revision, at, sample);
    }

    /// Returns what the revisions of a handler have cost, the one that was used last first.
    pub fn of(&self, handler: &str, now: Time) -> Vec<RevisionCost> {
        self.0.lock().of(handler, now)
    }

    /// Counts attempts of previous processes, which ended before `started_at`.
    pub async fn reload(self, dispatch: Dispatch, started_at: Time) {
        let since = Time(started_at.0.saturating_sub_unsigned(DAY_MS));
        let read = dispatch.read(move |reader| {
            let read = reader.attempts_since(since, RELOADED_MAX)?;
            let ended = read.into_iter();
            Ok(ended
                .filter(|(_, it)| it.finished_at < started_at)
                .collect::<Vec<_>>())
        });
        match read.await {
            Ok(attempts) => {
                let mut costs = self.0.lock();
                for (handler, attempt) in &attempts {
                    if let Some((component, revision)) = &attempt.revision {
                        let (at, sample) = (attempt.finished_at, Sample::from(attempt));
                        costs.add(handler, (component, *revision), at, sample);
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot read what attempts cost before this start");
            }
        }
    }
}
