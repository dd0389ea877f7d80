//! A pool and what feeds it: builds runs, starts them, and lets cells unmap what is no longer
//! deployed. Both the dispatch loop and the executor of foreign work feed cells through it.

use std::collections::BTreeMap;
use std::sync::Arc;

use host_core::name::Name;
use host_core::time::Time;

use crate::build::{Refused, RunBuilder, RunRequest};
use crate::handlers::Handler;
use crate::pool::{Place, Pool};
use crate::port::CellPort;

/// Why a run was not started.
#[derive(Debug)]
pub enum NotStarted {
    /// The attempt cannot be executed.
    Refused(Box<Refused>),
    /// The cell that was chosen has died; another one may take the run.
    CellGone,
}

/// A pool of cells with what its runs are built from.
pub struct Feed<P> {
    /// The cells.
    pub pool: Pool<P>,
    runs: RunBuilder,
    /// The handlers that cells were last matched with.
    matched: Arc<BTreeMap<Name, Arc<Handler>>>,
}

impl<P: CellPort> Feed<P> {
    /// Feeds `pool` with what `runs` builds.
    pub fn new(pool: Pool<P>, runs: RunBuilder) -> Self {
        Self {
            pool,
            runs,
            matched: Arc::default(),
        }
    }

    /// Builds a run and starts it at `place`.
    pub fn start(
        &mut self,
        now: Time,
        place: &Place,
        request: RunRequest,
    ) -> Result<(), NotStarted> {
        let (order, program) = self.runs.build(now, request).map_err(NotStarted::Refused)?;
        self.pool
            .start(now, place, &program, order)
            .map_err(|_order| NotStarted::CellGone)
    }

    /// Does what is due at `now`, and lets cells unmap what is no longer deployed.
    pub fn tick(&mut self, now: Time) {
        self.pool.tick(now);
        let handlers = self.runs.handlers();
        let all = handlers.all();
        if !Arc::ptr_eq(&all, &self.matched) {
            self.matched = all;
            self.pool.keep_loaded(|component| handlers.needs(component));
        }
    }
}
