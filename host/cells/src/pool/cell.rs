//! One cell, as the pool tracks it.

use std::collections::BTreeSet;

use host_core::cell::{ComponentKey, Handover, RunId, Start, ToCell};
use host_core::time::Time;

use super::START_TIMEOUT_MS;
use super::slots::Used;
use crate::pool::kill_deadline::Overrun;
use crate::run::handlers::Program;

/// The purpose of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Executes many runs. If it dies, another cell replaces it.
    Shared { index: usize },
    /// Executes runs of this component only.
    Bound { component: ComponentKey },
    /// Executes one group of suspects and then ends.
    Apart,
}

#[derive(Debug)]
pub(super) struct Cell {
    pub(super) kind: Kind,
    pub(super) name: String,
    /// How many runs it has room for.
    pub(super) slots_max: u32,
    /// The use of its last runs.
    pub(super) used: Used,
    pub(super) started_at: Time,
    /// Whether the cell has reported that it accepts messages.
    pub(super) ready: bool,
    /// Whether the cell was killed or broke the protocol. It gets no more messages.
    pub(super) doomed: bool,
    /// When the cell was killed because runs did not end in time, and which runs.
    pub(super) killed_at: Option<Time>,
    pub(super) culprits: Vec<(RunId, Overrun)>,
    pub(super) loaded: BTreeSet<ComponentKey>,
    pub(super) runs: BTreeSet<RunId>,
    /// When the last run ended.
    pub(super) idle_since: Time,
    pub(super) outbox: Vec<ToCell>,
}

impl Cell {
    pub(super) fn new(now: Time, kind: Kind, name: String, slots_max: u32) -> Self {
        Self {
            kind,
            name,
            slots_max,
            used: Used::default(),
            started_at: now,
            ready: false,
            doomed: false,
            killed_at: None,
            culprits: Vec::new(),
            loaded: BTreeSet::new(),
            runs: BTreeSet::new(),
            idle_since: now,
            outbox: Vec::new(),
        }
    }

    /// Returns whether the cell accepts new runs.
    pub(super) fn takes_runs(&self) -> bool {
        self.ready && !self.doomed && self.kind != Kind::Apart
    }

    /// Returns how many runs it takes at a time.
    pub(super) fn slots(&self, memory_bytes: u64) -> u32 {
        self.used.slots(self.slots_max, memory_bytes)
    }

    /// Returns the time by which the cell must be ready. `None` if it is ready or never will be.
    pub(super) fn start_limit(&self) -> Option<Time> {
        (!self.ready && !self.doomed).then(|| self.started_at.plus_ms(START_TIMEOUT_MS))
    }

    /// Sends a run to the cell, and the component first if the cell has not loaded it.
    pub(super) fn begin(&mut self, program: &Program, start: Start) {
        if self.loaded.insert(program.component) {
            self.outbox.push(ToCell::Load {
                component: program.component,
                path: program.path.clone(),
                sha256: program.sha256,
                file: Handover::Comes,
            });
        }
        self.runs.insert(start.run);
        self.outbox.push(ToCell::Start(Box::new(start)));
    }

    /// Records that a run is no longer in the cell.
    pub(super) fn end(&mut self, now: Time, run: RunId) {
        self.runs.remove(&run);
        self.idle_since = now;
    }

    /// Unmaps components that are not needed.
    pub(super) fn unload(&mut self, needed: impl Fn(ComponentKey) -> bool) {
        let outbox = &mut self.outbox;
        self.loaded.retain(|component| {
            let keep = needed(*component);
            if !keep {
                outbox.push(ToCell::Unload {
                    component: *component,
                });
            }
            keep
        });
    }
}
