//! One cell of the pool, as the host sees it.

use std::collections::BTreeSet;

use host_core::cell::{ComponentKey, RunId, Start, ToCell};
use host_core::time::Time;

use super::START_TIMEOUT_MS;
use crate::handlers::Program;
use crate::ladder::Overrun;

/// What a cell is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Many runs; another one follows in its seat when it dies.
    Shared { seat: usize },
    /// One run of a suspect, and then no more.
    Alone,
}

#[derive(Debug)]
pub(super) struct Cell {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) slots: u32,
    pub(super) started_at: Time,
    /// Whether it has said that it takes messages.
    pub(super) ready: bool,
    /// Whether it was killed or gave itself away; it takes nothing more.
    pub(super) doomed: bool,
    /// When the ladder killed it, and for whom.
    pub(super) killed_at: Option<Time>,
    pub(super) culprits: Vec<(RunId, Overrun)>,
    pub(super) loaded: BTreeSet<ComponentKey>,
    pub(super) runs: BTreeSet<RunId>,
    pub(super) outbox: Vec<ToCell>,
}

impl Cell {
    pub(super) fn new(now: Time, kind: Kind, name: String, slots: u32) -> Self {
        Self {
            kind,
            name,
            slots,
            started_at: now,
            ready: false,
            doomed: false,
            killed_at: None,
            culprits: Vec::new(),
            loaded: BTreeSet::new(),
            runs: BTreeSet::new(),
            outbox: Vec::new(),
        }
    }

    /// Tells whether runs are offered to it.
    pub(super) fn takes_runs(&self) -> bool {
        self.ready && !self.doomed && self.kind != Kind::Alone
    }

    /// Returns until when it has to be ready, `None` if it is or will never be.
    pub(super) fn start_limit(&self) -> Option<Time> {
        (!self.ready && !self.doomed).then(|| self.started_at.plus_ms(START_TIMEOUT_MS))
    }

    /// Gives it a run, and its component before if that is new to it.
    pub(super) fn begin(&mut self, program: &Program, start: Start) {
        if self.loaded.insert(program.component) {
            self.outbox.push(ToCell::Load {
                component: program.component,
                path: program.path.clone(),
                sha256: program.sha256,
            });
        }
        self.runs.insert(start.run);
        self.outbox.push(ToCell::Start(Box::new(start)));
    }

    /// Unmaps what is not needed.
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
