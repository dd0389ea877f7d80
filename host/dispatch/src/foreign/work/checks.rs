//! Checks of params that take long: on threads of their own, two at a time. The thread that feeds cells has to
//! stop guests in time.

use std::collections::VecDeque;

use host_cells::compile::schema::{self, Budget, STEPS_MAX};
use host_cells::run::handlers::Handlers;
use host_core::failure::Failure;
use tokio::sync::mpsc;

use super::{QueuedWork, bytes_of};
use crate::foreign::Key;

/// How many checks run concurrently.
const RUNNING_MAX: usize = 2;

/// Work whose params are checked, or wait for that.
pub(super) struct Checks {
    running: Vec<(QueuedWork, schema::BudgetGuard)>,
    queued: VecDeque<QueuedWork>,
    ended: mpsc::Sender<(Key, Result<(), Failure>)>,
    ends: mpsc::Receiver<(Key, Result<(), Failure>)>,
}

impl Checks {
    pub(super) fn new() -> Self {
        let (ended, ends) = mpsc::channel(RUNNING_MAX);
        Self {
            running: Vec::new(),
            queued: VecDeque::new(),
            ended,
            ends,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.running.len() + self.queued.len()
    }

    /// Checks the params of `waiting`, now or when others have been checked.
    pub(super) fn add(&mut self, handlers: &Handlers, waiting: QueuedWork) {
        self.queued.push_back(waiting);
        self.begin(handlers);
    }

    /// Waits for the end of a check. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<(Key, Result<(), Failure>)> {
        self.ends.recv().await
    }

    /// Returns the work of a check that has ended, unless it was taken out before, and begins others.
    pub(super) fn end(&mut self, handlers: &Handlers, key: Key) -> Option<QueuedWork> {
        let ended = self.take(key);
        self.begin(handlers);
        ended
    }

    /// Takes out the work with this key. Its check ends early.
    pub(super) fn take(&mut self, key: Key) -> Option<QueuedWork> {
        if let Some(at) = self.running.iter().position(|(it, _)| it.key == key) {
            return Some(self.running.swap_remove(at).0);
        }
        let at = self.queued.iter().position(|it| it.key == key)?;
        self.queued.remove(at)
    }

    pub(super) fn clear(&mut self) {
        self.queued.clear();
        self.running.clear();
    }

    fn begin(&mut self, handlers: &Handlers) {
        while self.running.len() < RUNNING_MAX
            && let Some(waiting) = self.queued.pop_front()
        {
            let (mut budget, ending) = Budget::ending(STEPS_MAX);
            let handler = handlers.get(&waiting.job.handler);
            let params = waiting.job.params.clone();
            let (ended, key) = (self.ended.clone(), waiting.key);
            tokio::task::spawn_blocking(move || {
                let checked = handler.map_or(Ok(()), |it| it.check_params(&params, &mut budget));
                // A host that has stopped does not wait for it.
                let _ = ended.blocking_send((key, checked));
            });
            self.running.push((waiting, ending));
        }
    }
}

impl<P: host_cells::port::CellPort> super::Work<P> {
    /// Continues work whose params are checked.
    pub(super) fn checked(&mut self, key: Key, checked: Result<(), Failure>) {
        let handlers = self.wiring.cells.handlers();
        // It may have been stopped.
        let Some(mut waiting) = self.checks.end(handlers, key) else {
            return;
        };
        match checked {
            Ok(()) => {
                waiting.is_checked = true;
                self.waiting.push_front(waiting);
            }
            Err(failure) => {
                self.waiting_bytes -= bytes_of(&waiting.job);
                waiting.reply.failed(failure);
            }
        }
    }
}
