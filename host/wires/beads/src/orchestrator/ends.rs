//! The ends of leases that the host has not accepted yet. Each is repeated until the host accepts it or
//! refuses it for good. Pure.

use std::collections::BTreeMap;

use host_core::id::{JobId, LeaseId};
use host_core::port::lease::LeaseMessage;
use host_core::time::Time;

use super::Effect;

/// The pause before an end is repeated, in milliseconds.
const REPEAT_MS: u64 = 250;

#[derive(Debug, Default)]
pub(super) struct Ends(BTreeMap<LeaseId, End>);

#[derive(Debug)]
struct End {
    job: JobId,
    message: LeaseMessage,
    /// When to repeat it. `None` while its answer is awaited.
    repeat_at: Option<Time>,
}

impl Ends {
    /// Adds the end of a lease, and returns its first report.
    pub(super) fn begin(&mut self, job: JobId, lease: LeaseId, message: LeaseMessage) -> Effect {
        let end = End {
            job,
            message: message.clone(),
            repeat_at: None,
        };
        self.0.insert(lease, end);
        report(job, lease, message)
    }

    pub(super) fn settled(&mut self, lease: LeaseId) {
        self.0.remove(&lease);
    }

    /// Repeats an end after a pause.
    pub(super) fn repeat(&mut self, lease: LeaseId, now: Time) {
        if let Some(end) = self.0.get_mut(&lease) {
            end.repeat_at = Some(now.plus_ms(REPEAT_MS));
        }
    }

    /// Returns whether the host has failed to accept an end.
    pub(super) fn is_stuck(&self) -> bool {
        self.0.values().any(|end| end.repeat_at.is_some())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn wakeup(&self) -> Option<Time> {
        self.0.values().filter_map(|end| end.repeat_at).min()
    }

    /// Returns the ends to repeat now.
    pub(super) fn due(&mut self, now: Time) -> impl Iterator<Item = Effect> {
        let due = self.0.iter_mut().filter_map(move |(lease, end)| {
            end.repeat_at.take_if(|at| *at <= now)?;
            Some(report(end.job, *lease, end.message.clone()))
        });
        due.collect::<Vec<_>>().into_iter()
    }
}

fn report(job: JobId, lease: LeaseId, message: LeaseMessage) -> Effect {
    Effect::Report {
        job,
        lease,
        message: Box::new(message),
    }
}
