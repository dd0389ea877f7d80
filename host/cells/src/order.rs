//! What the pool is told to start. Knows neither how it was built nor which cell executes it.

use host_core::cell::Start;
use host_core::id::{JobId, LeaseId};

use crate::chain::Chain;

/// What is to be started.
#[derive(Clone, Debug)]
pub struct Order {
    /// Of which job.
    pub job: JobId,
    /// By which lease.
    pub lease: LeaseId,
    /// The component and its revision.
    pub revision: (String, u32),
    /// What the cell is told; its run and component are filled in by the pool.
    pub start: Start,
    /// What follows its handler, if that makes a list of steps.
    pub chain: Option<Box<Chain>>,
}
