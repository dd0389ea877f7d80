//! The jobs that a claim may take, in the order of claims: those of the batch and those of the tables. If this host
//! cannot run some handlers, a claim looks at a number of jobs at most, and says whether there are more.

use std::collections::{BTreeSet, HashMap};

use host_core::id::JobId;
use host_core::job::{Lane, State};
use host_core::name::Name;
use host_engine::StoreError;

use super::claim;
use super::rows::Transaction;
use crate::ready::{QueuePosition, executor_of};

/// The fewest queues that a claim searches at a time, in the order of their first jobs.
const QUEUES_AT_ONCE: usize = 8;

/// A job with its place in the order of claims.
type PlacedJob = (u8, i64, JobId);

impl Transaction<'_> {
    /// Returns at most `limit` jobs that a claim may take, none of a handler in `except`.
    pub(super) fn available_jobs(
        &mut self,
        lane: &Lane,
        except: &BTreeSet<Name>,
        limit: usize,
    ) -> Result<Vec<JobId>, StoreError> {
        let in_hand = self.overlay.dirty().filter(|entry| {
            let job = &entry.job;
            job.state == State::Available
                && lane.has(job)
                && !except.contains(&job.handler)
                && !self.counts.is_paused(&job.queue)
        });
        let mut in_hand_by_queue: HashMap<Name, i64> = HashMap::new();
        let mut found: Vec<PlacedJob> = Vec::new();
        for entry in in_hand {
            found.push((entry.job.priority, entry.rank, entry.job.id));
            *in_hand_by_queue.entry(entry.job.queue.clone()).or_default() += 1;
        }
        found.sort_unstable();
        let passes = *lane == Lane::Shared && !except.is_empty();
        if *lane == Lane::Apart {
            // Usually everything claimable was enqueued in this batch.
            if self.counts.available() > found.len() as u64 {
                self.claimable_in(&[], lane, except, limit, &mut found)?;
            }
        } else if passes {
            self.pass_by(except, &in_hand_by_queue, limit, &mut found)?;
        } else {
            self.find_in_order(lane, &in_hand_by_queue, limit, &mut found)?;
        }
        found.truncate(limit);
        Ok(found.into_iter().map(|(_, _, id)| id).collect())
    }

    /// Adds the first jobs of the queues that have any, whatever the handler.
    fn find_in_order(
        &mut self,
        lane: &Lane,
        in_hand: &HashMap<Name, i64>,
        limit: usize,
        found: &mut Vec<PlacedJob>,
    ) -> Result<(), StoreError> {
        let mut last = None;
        loop {
            let at_once = limit.max(QUEUES_AT_ONCE);
            let queues = self.counts.queues(lane, last.as_ref(), in_hand, at_once);
            if !is_wanting(&queues, limit, found) {
                return Ok(());
            }
            self.claimable_in(&queues, lane, &BTreeSet::new(), limit, found)?;
            last = queues.into_iter().next_back();
        }
    }

    /// Adds jobs of handlers that are not in `except`, until it has looked at as many jobs as it may.
    fn pass_by(
        &mut self,
        except: &BTreeSet<Name>,
        in_hand: &HashMap<Name, i64>,
        limit: usize,
        found: &mut Vec<PlacedJob>,
    ) -> Result<(), StoreError> {
        let mut left = self.counts.passed.begin(except).max(limit);
        let (mut last, mut is_cut) = (None, false);
        loop {
            let at_once = limit.max(QUEUES_AT_ONCE);
            let queues = self.counts.queues_to_scan(last.as_ref(), in_hand, at_once);
            if !is_wanting(&queues, limit, found) {
                break;
            }
            if left == 0 {
                is_cut = true;
                break;
            }
            let each = left.div_ceil(queues.len());
            let (seen, has_more) = self.scan(&queues, except, each, limit, found)?;
            left = left.saturating_sub(seen + queues.len());
            is_cut |= has_more;
            last = queues.into_iter().next_back();
        }
        let found_enough = found.len() >= limit;
        self.counts.passed.end(found_enough || !is_cut);
        self.claim_goes_on |= is_cut && !found_enough;
        Ok(())
    }

    /// Looks at the next jobs of queues, `each` at most, and adds those that it may claim. Returns how many jobs it has
    /// seen, and whether a queue has more.
    fn scan(
        &mut self,
        queues: &[(QueuePosition, Name)],
        except: &BTreeSet<Name>,
        each: usize,
        limit: usize,
        found: &mut Vec<PlacedJob>,
    ) -> Result<(usize, bool), StoreError> {
        let position =
            |(_, name): &(QueuePosition, Name)| (name.clone(), self.counts.passed.from(name));
        let from: Vec<(Name, QueuePosition)> = queues.iter().map(position).collect();
        let scans = self.wait(async |client, _| claim::scan(client, &from, except, each).await)?;
        let (mut seen, mut has_more, mut ids) = (0, false, Vec::new());
        for (name, _) in from {
            let scan = scans.get(&name);
            seen += scan.map_or(0, |scan| scan.jobs);
            let is_cut = scan.is_some_and(|scan| scan.jobs >= each);
            has_more |= is_cut;
            let next = scan.and_then(|scan| scan.first.or(is_cut.then_some(scan.next)));
            self.counts.pass(&name, next);
            ids.extend(scan.into_iter().flat_map(|scan| scan.ids.iter().copied()));
        }
        let passed_over = self.counts.passed_over.clone();
        let stored = self.wait(async |client, overlay| {
            claim::take(client, overlay, ids, &passed_over, limit).await
        })?;
        self.add_stored(stored, found);
        for (_, name) in queues {
            self.counts.ready().note_stale(None, name);
        }
        Ok((seen, has_more))
    }

    /// Adds the claimable jobs of queues that the batch has not changed, in their order. A queue whose first job is
    /// not where it was expected is looked up when the batch ends.
    fn claimable_in(
        &mut self,
        queues: &[(QueuePosition, Name)],
        lane: &Lane,
        except: &BTreeSet<Name>,
        limit: usize,
        found: &mut Vec<PlacedJob>,
    ) -> Result<(), StoreError> {
        let names = queues.iter().map(|(_, name)| name.to_string()).collect();
        let passed_over = self.counts.passed_over.clone();
        let stored = self.wait(async |client, overlay| {
            claim::claimable(client, overlay, (lane, names), except, &passed_over, limit).await
        })?;
        let mut seen: BTreeSet<(QueuePosition, &Name)> = BTreeSet::new();
        for id in &stored {
            let Some(entry) = self.overlay.get(*id) else {
                continue;
            };
            let place = (entry.job.priority, entry.rank);
            let expected = queues.iter().find(|(_, name)| *name == entry.job.queue);
            seen.extend(expected.map(|(_, name)| (place, name)));
        }
        for (place, name) in queues {
            if !seen.contains(&(*place, name)) {
                self.counts.ready().note_stale(executor_of(lane), name);
            }
        }
        self.add_stored(stored, found);
        Ok(())
    }

    /// Adds those of these jobs that the batch has not changed.
    fn add_stored(&self, stored: Vec<JobId>, found: &mut Vec<PlacedJob>) {
        // The claim reads those first that cannot be read, and passes over them.
        let unreadable = &self.overlay.unreadable;
        let flawed = stored.iter().filter(|id| unreadable.contains_key(id));
        found.extend(flawed.map(|id| (0, i64::MIN, *id)));
        let unchanged = stored.into_iter().filter(|id| !self.overlay.is_dirty(*id));
        let entries = unchanged.filter_map(|id| self.overlay.get(id));
        found.extend(entries.map(|entry| (entry.job.priority, entry.rank, entry.job.id)));
        found.sort_unstable();
    }
}

/// Returns whether one of these queues, which are in order, may have a job before the last of those that were found.
fn is_wanting(queues: &[(QueuePosition, Name)], limit: usize, found: &[PlacedJob]) -> bool {
    let Some((next, _)) = queues.first() else {
        return false;
    };
    let is_before = |(priority, rank, _): &PlacedJob| (*priority, *rank) <= *next;
    limit > 0 && !found.get(limit - 1).is_some_and(is_before)
}
