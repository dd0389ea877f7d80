//! Which queues have jobs that may be claimed, in the order of the first job of each: a claim visits the queues
//! that it takes jobs from, however many others there are. Pure: an engine says what its rows have.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use host_core::job::{Lane, Lifecycle, State};
use host_core::name::Name;

/// The place of a job in the order of claims: its priority and its rank.
pub(crate) type QueuePosition = (u8, i64);

/// The queues with available jobs. `Q` identifies a queue.
#[derive(Debug)]
pub(crate) struct Ready<Q> {
    /// For each executor, and for cells under no name.
    lines: BTreeMap<Option<Name>, Line<Q>>,
    /// The queues whose first job may be gone.
    stale: BTreeSet<(Option<Name>, Q)>,
}

#[derive(Debug)]
struct Line<Q> {
    /// The place of the first job of each queue, or one before it.
    firsts: BTreeMap<Q, QueuePosition>,
    /// The same in the order of places, without paused queues.
    order: BTreeSet<(QueuePosition, Q)>,
}

impl<Q> Default for Ready<Q> {
    fn default() -> Self {
        Self {
            lines: BTreeMap::new(),
            stale: BTreeSet::new(),
        }
    }
}

impl<Q> Default for Line<Q> {
    fn default() -> Self {
        Self {
            firsts: BTreeMap::new(),
            order: BTreeSet::new(),
        }
    }
}

impl<Q: Ord + Clone> Line<Q> {
    fn set(&mut self, queue: &Q, first: Option<QueuePosition>, is_paused: bool) {
        if let Some(before) = self.firsts.remove(queue) {
            self.order.remove(&(before, queue.clone()));
        }
        if let Some(first) = first {
            self.firsts.insert(queue.clone(), first);
            if !is_paused {
                self.order.insert((first, queue.clone()));
            }
        }
    }
}

impl<Q: Ord + Clone> Ready<Q> {
    /// Records that a job with this rank is claimable at another place than before. Returns its new
    /// place.
    pub(crate) fn note(
        &mut self,
        queue: &Q,
        is_paused: bool,
        rank: i64,
        [before, after]: [Option<&Lifecycle>; 2],
    ) -> Option<QueuePosition> {
        let [from, to] = [before, after].map(|job| place(rank, job?));
        let executor = &after.or(before)?.executor;
        if from == to {
            return None;
        }
        let line = self.lines.get(executor);
        if from.is_some() && line.and_then(|line| line.firsts.get(queue)) == from.as_ref() {
            self.note_stale(executor.as_ref(), queue);
        }
        if let Some(to) = to {
            self.add(executor.as_ref(), queue, is_paused, to);
        }
        to
    }

    /// Adds an available job.
    pub(crate) fn add(
        &mut self,
        executor: Option<&Name>,
        queue: &Q,
        is_paused: bool,
        place: QueuePosition,
    ) {
        let line = self.lines.entry(executor.cloned()).or_default();
        if line.firsts.get(queue).is_none_or(|first| place < *first) {
            line.set(queue, Some(place), is_paused);
        }
    }

    /// Sets the place of a queue's first job; `None` if it has none.
    pub(crate) fn set(
        &mut self,
        executor: Option<&Name>,
        queue: &Q,
        is_paused: bool,
        first: Option<QueuePosition>,
    ) {
        let executor = executor.cloned();
        let line = self.lines.entry(executor.clone()).or_default();
        line.set(queue, first, is_paused);
        if line.firsts.is_empty() {
            self.lines.remove(&executor);
        }
    }

    /// Pauses or resumes a queue.
    pub(crate) fn set_paused(&mut self, queue: &Q, is_paused: bool) {
        for line in self.lines.values_mut() {
            let first = line.firsts.get(queue).copied();
            line.set(queue, first, is_paused);
        }
    }

    /// Records that the first job of a queue may be gone.
    pub(crate) fn note_stale(&mut self, executor: Option<&Name>, queue: &Q) {
        self.stale.insert((executor.cloned(), queue.clone()));
    }

    /// Records that a queue may have no job for anyone.
    pub(crate) fn note_all_stale(&mut self, queue: &Q) {
        for (executor, line) in &self.lines {
            if line.firsts.contains_key(queue) {
                self.stale.insert((executor.clone(), queue.clone()));
            }
        }
    }

    /// Takes the queues whose first job may be gone, for [`Ready::set`].
    pub(crate) fn take_stale(&mut self) -> BTreeSet<(Option<Name>, Q)> {
        std::mem::take(&mut self.stale)
    }

    /// Returns the queues after `last` that are not paused, in the order of their first jobs, each with a place
    /// that is not after its first job's.
    pub(crate) fn queues(
        &self,
        executor: Option<&Name>,
        last: Option<&(QueuePosition, Q)>,
    ) -> impl Iterator<Item = &(QueuePosition, Q)> {
        let line = self.lines.get(&executor.cloned());
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        line.into_iter()
            .flat_map(move |line| line.order.range((from, Bound::Unbounded)))
    }
}

/// Returns the executor of a lane, `None` for cells.
pub(crate) fn executor_of(lane: &Lane) -> Option<&Name> {
    match lane {
        Lane::Executor(name) => Some(name),
        Lane::Shared | Lane::Apart => None,
    }
}

/// Returns the place at which a job may be claimed. Suspects are claimed in an order of their own.
fn place(rank: i64, job: &Lifecycle) -> Option<QueuePosition> {
    let is_ready =
        job.state == State::Available && (job.executor.is_some() || !job.suspicion.is_apart());
    is_ready.then_some((job.priority, rank))
}
