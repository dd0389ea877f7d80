//! How far claims have passed jobs of handlers that this host cannot run: a claim looks at a number of jobs, and the
//! next one continues behind those. Pure.

use std::collections::{BTreeSet, HashMap};

use host_core::name::Name;

use crate::ready::QueuePosition;

/// How many jobs a claim looks at if it passes some: at first, and after claims that did not find enough.
const JOBS_SEEN_MIN: usize = 256;
pub(super) const JOBS_SEEN_MAX: usize = 4_096;

/// Before the place of every job, and behind it.
const START: QueuePosition = (0, i64::MIN);
const END: QueuePosition = (u8::MAX, i64::MAX);

/// Where to look for jobs of other handlers.
#[derive(Default)]
pub(super) struct Passed {
    /// The handlers whose jobs are passed.
    except: BTreeSet<Name>,
    /// The place from which on a queue may have other jobs. Those before it have none that a claim may take.
    from: HashMap<Name, QueuePosition>,
    jobs_seen: usize,
}

impl Passed {
    /// Begins a claim that passes the jobs of these handlers. Returns how many jobs it may look at.
    pub(super) fn begin(&mut self, except: &BTreeSet<Name>) -> usize {
        if self.except != *except {
            self.except.clone_from(except);
            self.from.clear();
        }
        self.jobs_seen.max(JOBS_SEEN_MIN)
    }

    /// Ends a claim. If it did not find enough, the next one may look at more jobs.
    pub(super) fn end(&mut self, found_enough: bool) {
        let more = self.jobs_seen.max(JOBS_SEEN_MIN) * 2;
        self.jobs_seen = if found_enough {
            JOBS_SEEN_MIN
        } else {
            more.min(JOBS_SEEN_MAX)
        };
    }

    /// Returns the place in a queue from which on to look.
    pub(super) fn from(&self, queue: &Name) -> QueuePosition {
        self.from.get(queue).copied().unwrap_or(START)
    }

    /// Returns whether a queue has no job that a claim may take.
    pub(super) fn is_through(&self, queue: &Name) -> bool {
        self.from.get(queue) == Some(&END)
    }

    /// Records that a queue has no other job before a place; `None` if it has none at all.
    pub(super) fn pass(&mut self, queue: &Name, until: Option<QueuePosition>) {
        self.from.insert(queue.clone(), until.unwrap_or(END));
    }

    /// Records that a job has become available at a place.
    pub(super) fn lower(&mut self, queue: &Name, place: QueuePosition) {
        if let Some(from) = self.from.get_mut(queue) {
            *from = place.min(*from);
        }
    }

    /// Forgets what is known of a queue.
    pub(super) fn forget(&mut self, queue: &Name) {
        self.from.remove(queue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    #[test]
    fn a_queue_is_looked_at_from_where_the_last_claim_stopped() {
        let (queue, unrunnable) = (name("default"), BTreeSet::from([name("unrunnable")]));
        let mut passed = Passed::default();
        assert_eq!(passed.begin(&unrunnable), JOBS_SEEN_MIN);
        passed.pass(&queue, Some((5, 700)));
        assert_eq!(passed.from(&queue), (5, 700));
        passed.lower(&queue, (6, 1));
        assert_eq!(passed.from(&queue), (5, 700), "a job behind it");
        passed.pass(&queue, None);
        assert!(passed.is_through(&queue));
        passed.lower(&queue, (4, 900));
        assert_eq!(passed.from(&queue), (4, 900), "a job before it");
        passed.lower(&name("other"), (1, 1));
        assert_eq!(passed.from(&name("other")), START);
        passed.begin(&BTreeSet::new());
        assert_eq!(passed.from(&queue), START, "this host can run them now");
    }

    #[test]
    fn a_claim_looks_at_more_jobs_after_one_that_found_too_few() {
        let mut passed = Passed::default();
        let mut seen = Vec::new();
        for found_enough in [false, false, true, false, false, false, false, false] {
            passed.end(found_enough);
            seen.push(passed.begin(&BTreeSet::new()));
        }
        assert_eq!(seen, [512, 1_024, 256, 512, 1_024, 2_048, 4_096, 4_096]);
    }
}
