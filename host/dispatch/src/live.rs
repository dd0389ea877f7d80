//! What running jobs last reported. It is kept in memory and lost when the host stops. If other nodes share the
//! store, this also knows what they have not been sent.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use host_core::id::JobId;
use host_core::outcome::{Meter, Progress};
use host_core::time::Time;
use host_engine::node::Reported;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// How many jobs are published at a time.
const PUBLISHED_MAX: usize = 512;

/// What each running job last reported, if it reported anything. Cloning shares it.
#[derive(Clone, Default)]
pub struct Live {
    jobs: Arc<Mutex<Jobs>>,
    changed: Option<Arc<Notify>>,
}

#[derive(Default)]
struct Jobs {
    latest: HashMap<JobId, Latest>,
    /// Jobs whose latest progress other nodes do not know.
    unpublished: BTreeSet<JobId>,
    /// Jobs of which other nodes know something.
    published: HashSet<JobId>,
    /// Those that no longer run here.
    over: BTreeSet<JobId>,
}

/// What one running job last reported.
#[derive(Clone, Debug, Default)]
pub struct Latest {
    pub progress: Option<Progress>,
    /// What its attempt had used by then.
    pub meter: Meter,
    attempt: u32,
    at: Time,
}

/// What has to be published to other nodes.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Unpublished {
    pub(crate) reported: Vec<Reported>,
    /// Jobs that no longer run here.
    pub(crate) over: Vec<JobId>,
}

impl Live {
    /// Also remembers what has to be published to other nodes.
    pub(crate) fn among_nodes() -> Self {
        Self {
            changed: Some(Arc::default()),
            ..Self::default()
        }
    }

    /// Returns whether other nodes may run jobs of the same store.
    pub fn is_among_nodes(&self) -> bool {
        self.changed.is_some()
    }

    /// Returns what a running job last reported.
    pub fn latest(&self, job: JobId) -> Option<Latest> {
        self.jobs.lock().latest.get(&job).cloned()
    }

    /// Returns the latest progress of a running job.
    pub fn progress(&self, job: JobId) -> Option<Progress> {
        self.jobs.lock().latest.get(&job)?.progress.clone()
    }

    /// Returns the latest progress of a job's attempt: what is known here, or what another node was sent
    /// later.
    pub fn latest_of(&self, job: JobId, elsewhere: Option<&Reported>) -> Option<Progress> {
        let jobs = self.jobs.lock();
        let here = jobs.latest.get(&job).filter(|it| it.progress.is_some());
        match (here, elsewhere) {
            (Some(here), Some(there)) if (there.attempt, there.at) > (here.attempt, here.at) => {
                Some(there.progress.clone())
            }
            (Some(here), _) => here.progress.clone(),
            (None, there) => there.map(|there| there.progress.clone()),
        }
    }

    /// Stores a progress of a job that runs and does not end in the meantime.
    pub fn record_progress(&self, now: Time, job: JobId, attempt: u32, progress: Progress) {
        let mut jobs = self.jobs.lock();
        let latest = jobs.latest.entry(job).or_default();
        latest.progress = Some(progress);
        (latest.attempt, latest.at) = (attempt, now);
        if let Some(changed) = &self.changed {
            jobs.unpublished.insert(job);
            changed.notify_one();
        }
    }

    /// Stores what an attempt has used. Only the dispatch loop calls it.
    pub fn used(&self, job: JobId, meter: Meter) {
        self.jobs.lock().latest.entry(job).or_default().meter = meter;
    }

    /// Removes a job whose attempt has ended and returns its last progress.
    pub fn forget(&self, job: JobId) -> Option<Progress> {
        let mut jobs = self.jobs.lock();
        if let Some(changed) = &self.changed {
            jobs.unpublished.remove(&job);
            if jobs.published.remove(&job) {
                jobs.over.insert(job);
                changed.notify_one();
            }
        }
        jobs.latest.remove(&job)?.progress
    }

    /// Waits until there is something to publish. Cancel safe.
    pub(crate) async fn changed(&self) {
        match &self.changed {
            Some(changed) => changed.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Takes what other nodes must be sent, as much as may be sent at a time. Without listeners, that is only
    /// what must be taken back.
    pub(crate) fn unpublished(&self, has_others: bool) -> Unpublished {
        let mut guard = self.jobs.lock();
        let jobs = &mut *guard;
        let mut unpublished = Unpublished::default();
        while has_others
            && unpublished.reported.len() < PUBLISHED_MAX
            && let Some(job) = jobs.unpublished.pop_first()
        {
            let latest = jobs.latest.get(&job);
            let Some((latest, progress)) = latest.and_then(|it| Some((it, it.progress.clone()?)))
            else {
                continue;
            };
            jobs.published.insert(job);
            // What is published now replaces what was published before.
            jobs.over.remove(&job);
            unpublished.reported.push(Reported {
                job,
                attempt: latest.attempt,
                at: latest.at,
                progress,
            });
        }
        while unpublished.over.len() < PUBLISHED_MAX
            && let Some(job) = jobs.over.pop_first()
        {
            unpublished.over.push(job);
        }
        let is_left = (has_others && !jobs.unpublished.is_empty()) || !jobs.over.is_empty();
        if let Some(changed) = self.changed.as_ref().filter(|_| is_left) {
            changed.notify_one();
        }
        unpublished
    }

    /// Puts back what could not be published.
    pub(crate) fn put_back(&self, unpublished: Unpublished) {
        let mut guard = self.jobs.lock();
        let jobs = &mut *guard;
        for Reported { job, .. } in unpublished.reported {
            if jobs.latest.contains_key(&job) {
                jobs.unpublished.insert(job);
            }
        }
        let over = unpublished.over.into_iter();
        jobs.over
            .extend(over.filter(|job| !jobs.published.contains(job)));
    }
}

#[cfg(test)]
mod tests {
    use host_core::id::JobId;
    use uuid::Uuid;

    use super::*;

    fn id(n: u128) -> JobId {
        JobId(Uuid::from_u128(n))
    }

    fn progress(message: &str) -> Progress {
        Progress {
            percent: None,
            message: message.to_owned(),
        }
    }

    /// Returns the messages to send, and the jobs that are taken back.
    fn published(live: &Live, has_others: bool) -> (Vec<String>, Vec<JobId>) {
        let unpublished = live.unpublished(has_others);
        let messages = unpublished
            .reported
            .into_iter()
            .map(|it| it.progress.message);
        (messages.collect(), unpublished.over)
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn other_nodes_get_the_latest_and_what_is_over() {
        let live = Live::among_nodes();
        live.record_progress(Time(1), id(1), 1, progress("a"));
        live.record_progress(Time(2), id(1), 1, progress("b"));
        live.record_progress(Time(2), id(2), 1, progress("c"));
        live.used(id(3), Meter::default());
        assert_eq!(
            published(&live, false),
            (vec![], vec![]),
            "there is no listener"
        );
        assert_eq!(published(&live, true), (words(&["b", "c"]), vec![]));
        assert_eq!(published(&live, true), (vec![], vec![]));
        // No listener knows of the third.
        for job in [1, 3] {
            live.forget(id(job));
        }
        assert_eq!(published(&live, false), (vec![], vec![id(1)]));
        // An attempt ends, and the next reports something before that is sent.
        live.forget(id(2));
        live.record_progress(Time(3), id(2), 2, progress("d"));
        assert_eq!(published(&live, true), (words(&["d"]), vec![]));
    }

    #[test]
    fn what_could_not_be_sent_is_sent_later_unless_it_is_over() {
        let live = Live::among_nodes();
        for job in 1..=3 {
            live.record_progress(Time(1), id(job), 1, progress(&job.to_string()));
        }
        let unpublished = live.unpublished(true);
        live.forget(id(1));
        live.record_progress(Time(2), id(2), 1, progress("later"));
        live.put_back(unpublished);
        // It is not known whether the first was sent.
        assert_eq!(
            published(&live, true),
            (words(&["later", "3"]), vec![id(1)])
        );
    }

    #[test]
    fn the_later_of_two_nodes_is_shown() {
        let live = Live::among_nodes();
        let there = |attempt, at| Reported {
            job: id(1),
            attempt,
            at: Time(at),
            progress: progress("there"),
        };
        let shown = |elsewhere: Option<Reported>| {
            let shown = live.latest_of(id(1), elsewhere.as_ref());
            shown.map(|progress| progress.message)
        };
        live.used(id(1), Meter::default());
        assert_eq!(shown(None), None);
        assert_eq!(shown(Some(there(1, 5))).as_deref(), Some("there"));
        live.record_progress(Time(6), id(1), 1, progress("here"));
        assert_eq!(shown(None).as_deref(), Some("here"));
        assert_eq!(shown(Some(there(1, 5))).as_deref(), Some("here"));
        assert_eq!(shown(Some(there(1, 7))).as_deref(), Some("there"));
        assert_eq!(shown(Some(there(2, 5))).as_deref(), Some("there"));
    }

    #[test]
    fn a_host_alone_keeps_nothing_to_send() {
        let live = Live::default();
        live.record_progress(Time(1), id(1), 1, progress("a"));
        live.forget(id(1));
        assert_eq!(live.unpublished(true), Unpublished::default());
    }
}
