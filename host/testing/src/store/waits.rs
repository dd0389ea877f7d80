//! Which jobs wait for which, and the cascades that settle them.

use std::collections::BTreeMap;

use host_core::id::JobId;
use host_engine::job::Cascade;

#[derive(Clone, Default)]
pub(super) struct Waits {
    /// The jobs that wait for a job, by their place in the order.
    dependencies: BTreeMap<JobId, BTreeMap<u64, JobId>>,
    pub(super) cascades: Vec<Cascade>,
}

impl Waits {
    /// Makes the job at this place wait for others.
    pub(super) fn add(&mut self, seq: u64, job: JobId, prerequisites: &[JobId]) {
        for prerequisite in prerequisites {
            let waiting = self.dependencies.entry(*prerequisite).or_default();
            waiting.insert(seq, job);
        }
    }

    /// Makes the job at this place wait for no others.
    pub(super) fn clear(&mut self, seq: u64) {
        for waiting in self.dependencies.values_mut() {
            waiting.remove(&seq);
        }
    }

    pub(super) fn remove(&mut self, (prerequisite, dependent): (JobId, JobId)) {
        if let Some(waiting) = self.dependencies.get_mut(&prerequisite) {
            waiting.retain(|_, job| *job != dependent);
        }
    }

    pub(super) fn on(&self, prerequisites: &[JobId]) -> impl Iterator<Item = (JobId, JobId)> {
        prerequisites.iter().flat_map(|prerequisite| {
            let waiting = self
                .dependencies
                .get(prerequisite)
                .into_iter()
                .flat_map(BTreeMap::values);
            waiting.map(|job| (*prerequisite, *job))
        })
    }

    pub(super) fn keep_cascade(&mut self, cascade: Cascade) {
        if !self.is_cascading(cascade.prerequisite) {
            self.cascades.push(cascade);
        }
    }

    pub(super) fn end_cascade(&mut self, prerequisite: JobId) {
        self.cascades.retain(|it| it.prerequisite != prerequisite);
    }

    pub(super) fn is_cascading(&self, prerequisite: JobId) -> bool {
        let mut cascades = self.cascades.iter();
        cascades.any(|it| it.prerequisite == prerequisite)
    }
}
