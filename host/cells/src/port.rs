//! The interface between the pool and cells: real processes, or fakes in tests.

use host_core::cell::{Context, FromCell, RunId, ToCell};
use host_core::requests::Requests;
use host_core::time::Time;
use thiserror::Error;
use tokio::sync::OwnedSemaphorePermit;

use crate::run::chain::{Planned, Planning};

/// Identifies one cell. It is unique for the life of the host process and never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellId(pub u64);

/// The events of a cell.
#[derive(Debug)]
pub enum CellEvent {
    /// The cell sent messages.
    Received {
        cell: CellId,
        /// The messages in order, each within the limits of [`super::process::check`].
        messages: Vec<FromCell>,
        /// Their share of the cell's unhandled messages, held until it is dropped.
        room: Option<OwnedSemaphorePermit>,
    },
    /// The steps of a run have been planned.
    Planned { run: RunId, planned: Planned },
    /// The cell is dead and executes no guest any more. No event follows for it.
    Gone {
        cell: CellId,
        /// How the cell ended, for people.
        how: String,
    },
}

/// A cell accepts no messages, because it does not read them or is dying.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the cell accepts no messages")]
pub struct Unresponsive;

/// Starts cells, sends them messages and kills them. No call blocks.
///
/// For each cell that was started, exactly one [`CellEvent::Gone`] follows, even if it failed to
/// start.
pub trait CellPort: Send {
    /// Starts a cell that executes at most `slots` runs concurrently.
    fn start(&mut self, cell: CellId, name: &str, slots: u32);

    /// Sends messages to a cell, in order.
    fn send(&mut self, cell: CellId, messages: Vec<ToCell>) -> Result<(), Unresponsive>;

    /// Plans the steps of a run elsewhere. A [`CellEvent::Planned`] follows.
    fn plan(&mut self, run: RunId, planning: Planning);

    /// Kills a cell. Does nothing if it has already ended.
    fn kill(&mut self, cell: CellId);

    /// Begins the record of the requests of an attempt that started at `started_at`. Returns its number.
    fn record_requests(&mut self, _started_at: Time, _attempt: &Context) -> u64 {
        0
    }

    /// Ends a record. Requests that have not ended are cut.
    fn recorded_requests(&mut self, _now: Time, _number: u64) -> Requests {
        Requests::default()
    }
}
