//! The order to start one run. It does not depend on how the run was built or which cell executes
//! it.

use host_core::cell::Start;
use host_core::id::{JobId, LeaseId};
use host_core::writes::WriteBuffer;

use crate::run::chain::Chain;

/// A run to start.
#[derive(Clone, Debug)]
pub struct Order {
    pub job: JobId,
    pub lease: LeaseId,
    pub revision: (String, u32),
    /// The start message for the cell. The pool fills in its run and component.
    pub start: Start,
    /// What the attempt writes at its end, if it may.
    pub writes: Option<WriteBuffer>,
    /// The chain, if the result of the handler is a list of steps.
    pub chain: Option<Box<Chain>>,
}
