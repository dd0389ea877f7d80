//! The seam between the pool and whatever executes guests: real processes, or a fake in tests.

use host_core::cell::{FromCell, ToCell};
use thiserror::Error;

/// One life of one cell; unique for the life of the orchestrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellId(pub u64);

/// What the pool hears of a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum CellEvent {
    /// It said this, in order.
    Said {
        /// Which cell.
        cell: CellId,
        /// What: each message within the bounds of [`super::check`].
        messages: Vec<FromCell>,
    },
    /// It is dead and none of its guests executes any more; nothing follows about it.
    Gone {
        /// Which cell.
        cell: CellId,
        /// How it ended, for people.
        how: String,
    },
}

/// A cell takes no messages: it does not read them, or it is dying.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the cell takes no messages")]
pub struct Deaf;

/// Starts, reaches and kills cells. No call blocks.
///
/// For each cell that was started, exactly one [`CellEvent::Gone`] follows, however it ends and
/// even if it could not be started.
pub trait CellPort: Send {
    /// Starts a cell with room for `slots` runs.
    fn start(&mut self, cell: CellId, name: &str, slots: u32);

    /// Gives a cell messages, in order.
    fn send(&mut self, cell: CellId, messages: Vec<ToCell>) -> Result<(), Deaf>;

    /// Kills a cell at once; for one that is gone it does nothing.
    fn kill(&mut self, cell: CellId);
}

#[cfg(test)]
#[expect(
    dead_code,
    reason = "the tests of host-dispatch include this file too, and use the rest of it"
)]
pub(crate) mod fake;
