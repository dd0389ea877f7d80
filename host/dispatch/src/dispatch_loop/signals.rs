//! What the loop publishes: changes of jobs, numbers, and the state of the host.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use host_core::query::Change;
use host_core::time::Time;
use host_engine::StoreError;
use host_engine::node::Running;

use crate::Shared;
use crate::logged::{Logged, Logs};
use crate::nodes::CommitSignal;
use crate::numbers::Numbers;
use crate::workers::table::LeaseTable;

pub(super) struct Signals {
    pub(super) shared: Arc<Shared>,
    pub(super) numbers: Numbers,
    pub(super) logs: Logs,
    /// Notified after each commit, if other nodes share the store.
    commit_signal: Option<CommitSignal>,
    /// How many attempts ran when this was last reported, and whether no more were started.
    last_reported: Option<([usize; 2], bool)>,
}

impl Signals {
    pub(super) const fn new(
        shared: Arc<Shared>,
        numbers: Numbers,
        logs: Logs,
        commit_signal: Option<CommitSignal>,
    ) -> Self {
        Self {
            shared,
            numbers,
            logs,
            commit_signal,
            last_reported: None,
        }
    }

    /// Returns whether other nodes share the store.
    pub(super) const fn is_shared(&self) -> bool {
        self.commit_signal.is_some()
    }

    /// Tells other nodes that there was a commit.
    pub(super) fn notify_commit(&self) {
        if let Some(signal) = &self.commit_signal {
            signal.notify();
        }
    }

    /// Publishes changes and wakes waiting requests.
    pub(super) fn publish(&self, now: Time, first: Option<u64>, changes: &[Change]) {
        // Otherwise they are published in the order of all nodes, once they are numbered.
        if let Some(first) = first {
            self.shared.events.changed(now, first, changes);
        }
        self.numbers.changed(now, changes);
        for change in changes {
            match change.to {
                None => {
                    self.logs.send(Logged::Purged(change.job));
                    self.shared.waiters.ended(change.job);
                }
                Some(state) if state.is_terminal() => self.shared.waiters.ended(change.job),
                Some(_) => {}
            }
        }
    }

    /// Publishes what runs here, if that has changed.
    pub(super) fn report_running(&mut self, cells: usize, workers: &LeaseTable, starts_none: bool) {
        self.shared.is_busy.store(cells > 0, Ordering::Relaxed);
        let now = Some(([cells, workers.connected()], starts_none));
        if self.last_reported == now {
            return;
        }
        self.last_reported = now;
        let running = Running {
            cells: cells as u64,
            runners: workers.connected_by_executor(),
        };
        self.shared.presence.set_running(running, starts_none);
    }

    /// Publishes why new jobs are refused.
    pub(super) fn report_room(&self, refused: Option<&StoreError>) {
        let is_full = matches!(refused, Some(StoreError::Full));
        self.shared.store_full.store(is_full, Ordering::Relaxed);
        self.numbers.store_full(is_full);
        let moved = refused.filter(|error| matches!(error, StoreError::Moved { .. }));
        let was_moved = &self.shared.store_moved;
        match (was_moved.swap(moved.is_some(), Ordering::Relaxed), moved) {
            (false, Some(error)) => tracing::error!(%error, "new jobs are refused"),
            (true, None) => {
                tracing::info!("the store is back where it was; new jobs are accepted again");
            }
            _ => {}
        }
    }
}
