//! A pool together with the builder of its runs: builds and starts runs, and lets cells unmap
//! components that are no longer deployed. The dispatch loop and the executor of foreign work both
//! use it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use host_core::cell::ComponentKey;
use host_core::name::Name;
use host_core::time::Time;

use crate::pool::{CellSlot, Pool};
use crate::port::CellPort;
use crate::run::build::{RunBuilder, RunRequest, StartFailure};
use crate::run::handlers::{Handler, Handlers};

/// Why a run was not started.
#[derive(Debug)]
pub enum NotStarted {
    Refused(Box<StartFailure>),
    /// The chosen cell has died. Another cell may take the run.
    CellGone,
}

/// A pool of cells and the builder of its runs.
pub struct CellExecutor<P> {
    pub pool: Pool<P>,
    runs: RunBuilder,
    /// The handlers at the last check for components to unmap.
    matched: Arc<BTreeMap<Name, Arc<Handler>>>,
}

impl<P: CellPort> CellExecutor<P> {
    /// Makes an executor that starts the runs that `runs` builds in `pool`.
    pub fn new(pool: Pool<P>, runs: RunBuilder) -> Self {
        Self {
            pool,
            runs,
            matched: Arc::default(),
        }
    }

    /// Returns what is deployed.
    pub const fn handlers(&self) -> &Handlers {
        self.runs.handlers()
    }

    /// Builds a run and starts it in `slot`.
    pub fn start(
        &mut self,
        now: Time,
        slot: &CellSlot,
        request: RunRequest,
    ) -> Result<(), NotStarted> {
        let (order, program) = self.runs.build(now, request).map_err(NotStarted::Refused)?;
        self.pool
            .start(now, slot, &program, order)
            .map_err(|_order| NotStarted::CellGone)
    }

    /// Records that a compiled component cannot be loaded, so that it is compiled again.
    pub fn record_damaged(&self, component: ComponentKey) {
        self.runs.handlers().record_damaged(component);
    }

    /// Does the pool's work that is due at `now`, and lets cells unmap components that are no
    /// longer deployed.
    pub fn tick(&mut self, now: Time) {
        self.pool.tick(now);
        let handlers = self.runs.handlers();
        let all = handlers.by_name();
        if !Arc::ptr_eq(&all, &self.matched) {
            self.matched = all;
            self.pool.keep_loaded(|component| handlers.needs(component));
            let digests = self.matched.values().map(|handler| handler.revision.digest);
            self.pool
                .set_components(digests.collect::<BTreeSet<_>>().len());
        }
    }
}
